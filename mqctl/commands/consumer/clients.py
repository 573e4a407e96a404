"""`mqctl consumer connections`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.consumer.shared import GroupArgument, app, find_groups, type_text
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.watching import WatchOption, watch
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.remoting.bodies import ConsumerConnection

CONNECTIONS: Final = [
    Column("clientId", "CLIENT"),
    Column("clientAddr", "ADDRESS"),
    Column("language"),
    Column("version"),
    Column("consumeType", "TYPE", type_text),
    Column("messageModel", "MODEL", str.lower),
    Column("consumeFromWhere", "FROM", wide=True),
    Column("subscriptions"),
]


@app.command(cls=AdminCommand)
def connections(
    ctx: typer.Context, group: GroupArgument, cluster: ClusterOption = None, every: WatchOption = None
) -> None:
    """List the clients of a consumer group that are connected, and what they subscribe to.

    \b
    Example:
      mqctl consumer connections order-service
    """
    session = session_of(ctx)
    watch(session, every, lambda admin: _members(admin, group, cluster), lambda found: _show(session, found))


def _show(session: Session, found: ConsumerConnection) -> None:
    from mqctl.client.admin.consumers import version_text

    subscriptions = {data.topic: data.sub_string for data in found.subscription_table.values()}
    rows = [
        {
            "clientId": client.client_id,
            "clientAddr": client.client_addr,
            "language": client.language,
            "version": version_text(client.version),
            "consumeType": found.consume_type,
            "messageModel": found.message_model,
            "consumeFromWhere": found.consume_from_where,
            "subscriptions": dict(sorted(subscriptions.items())),
        }
        for client in found.connection_set
    ]
    session.print_rows(CONNECTIONS, rows)


async def _members(admin: Admin, group: str, cluster: str | None) -> ConsumerConnection:
    from mqctl.client.admin.consumers import members
    from mqctl.errors import NotFound

    found = await members(admin, (await find_groups(admin, cluster)).find(group), group)
    if found is None:
        raise NotFound(f"no consumer of {group} is connected")
    return found
