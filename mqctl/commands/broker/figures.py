"""`mqctl broker status` and `consume-stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import BrokerArgument, ClusterOption, chosen, chosen_masters
from mqctl.commands.telling import report_missing
from mqctl.commands.watching import WatchOption, watch
from mqctl.figures import count_text
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.brokers import GroupQueue
    from mqctl.client.admin.everywhere import Answers

FIGURES: Final = [Column("brokerAddr", "BROKER"), Column("key"), Column("value")]


@app.command(cls=AdminCommand)
def status(
    ctx: typer.Context, broker: BrokerArgument = None, cluster: ClusterOption = None, every: WatchOption = None
) -> None:
    """Show all that brokers say of themselves: rates, totals, times, disk.

    \b
    Examples:
      mqctl broker status
      mqctl broker status broker-a --watch 5
    """
    session = session_of(ctx)

    def show(answers: Answers[dict[str, str]]) -> None:
        rows = [
            {"brokerAddr": address, "key": key, "value": value}
            for address, table in answers.given.items()
            for key, value in sorted(table.items())
        ]
        session.print_rows(FIGURES, rows)
        report_missing(session, answers.failed)

    watch(session, every, lambda admin: _runtimes(admin, cluster, broker), show)


async def _runtimes(admin: Admin, cluster: str | None, broker: str | None) -> Answers[dict[str, str]]:
    from mqctl.client.admin.everywhere import ask_all

    found = await chosen(admin, cluster, broker)
    return await ask_all({instance.address: instance.address for instance in found}, admin.runtime_info)


CONSUMED: Final = [
    Column("topic"),
    Column("group"),
    Column("brokerName", "BROKER"),
    Column("queueId", "QUEUE"),
    Column("brokerOffset", "END"),
    Column("consumerOffset", "CONSUMED"),
    Column("diff", "BEHIND", count_text),
    Column("lastTimestamp", "LAST CONSUMED", time_text),
]


@app.command("consume-stats", cls=AdminCommand)
def consume_stats(
    ctx: typer.Context,
    broker: BrokerArgument = None,
    cluster: ClusterOption = None,
    min_diff: Annotated[
        int, typer.Option("--min-diff", min=0, metavar="N", help="Only queues that are so many messages behind.")
    ] = 0,
    ordered: Annotated[bool, typer.Option("--order", help="Only ordered topics.")] = False,
    every: WatchOption = None,
) -> None:
    """Show how far all groups are in all queues of a broker.

    \b
    Examples:
      mqctl broker consume-stats broker-a
      mqctl broker consume-stats broker-a --min-diff 1000 -o csv
    """
    session = session_of(ctx)

    def show(answers: Answers[list[GroupQueue]]) -> None:
        found = [queue for queues in answers.given.values() for queue in queues if queue.behind >= min_diff]
        session.print_rows(CONSUMED, [_queue_row(queue) for queue in found])
        session.env.say(f"{count_text(sum(queue.behind for queue in found))} messages behind")
        report_missing(session, answers.failed)

    watch(session, every, lambda admin: _consumed(admin, cluster, broker, ordered), show)


async def _consumed(admin: Admin, cluster: str | None, broker: str | None, ordered: bool) -> Answers[list[GroupQueue]]:
    from mqctl.client.admin.brokers import broker_consume_stats
    from mqctl.client.admin.everywhere import ask_all

    brokers = await chosen_masters(admin, cluster, broker)
    return await ask_all(brokers, lambda address: broker_consume_stats(admin, address, ordered=ordered))


def _queue_row(queue: GroupQueue) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "group": queue.group,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "brokerOffset": queue.broker_offset,
        "consumerOffset": queue.consumer_offset,
        "diff": queue.behind,
        "lastTimestamp": queue.last_timestamp,
    }
