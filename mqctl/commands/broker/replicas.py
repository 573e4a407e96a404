"""`mqctl broker ha`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import BrokerArgument, ClusterOption, chosen
from mqctl.commands.telling import report_missing
from mqctl.commands.watching import WatchOption, watch
from mqctl.figures import count_text, size_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.replicas import Replica
    from mqctl.errors import MqError

REPLICAS: Final = [
    Column("brokerName", "BROKER"),
    Column("brokerId", "ID"),
    Column("brokerAddr", "ADDRESS"),
    Column("logEnd"),
    Column("behindBytes", "BEHIND", size_text),
    Column("slaves", show=count_text),
    Column("inSync", show=count_text),
]


@app.command(cls=AdminCommand)
def ha(
    ctx: typer.Context, broker: BrokerArgument = None, cluster: ClusterOption = None, every: WatchOption = None
) -> None:
    """Show how far slaves are behind their masters.

    Masters of RocketMQ 5 also say how many slaves are connected, and in sync.

    \b
    Examples:
      mqctl broker ha
      mqctl broker ha broker-a --watch 5
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> tuple[list[Replica], dict[str, MqError]]:
        from mqctl.client.admin.replicas import replicas

        return await replicas(admin, await chosen(admin, cluster, broker))

    def show(seen: tuple[list[Replica], dict[str, MqError]]) -> None:
        found, failed = seen
        session.print_rows(REPLICAS, [_row(one) for one in found])
        report_missing(session, failed)

    watch(session, every, work, show)


def _row(one: Replica) -> dict[str, Any]:
    return {
        "brokerName": one.instance.broker_name,
        "brokerId": one.instance.broker_id,
        "brokerAddr": one.instance.address,
        "logEnd": one.log_end,
        "behindBytes": one.behind,
        "slaves": one.connected,
        "inSync": one.in_sync,
    }
