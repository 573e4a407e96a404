"""`mqctl msg track`, and how commands find the message that an id names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.msg.shared import TopicOption, app
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.remoting.message import ReceivedMessage

IdArgument: Final = typer.Argument(
    metavar="ID", help="The producer's id of a message, or the one that says where it is."
)


async def find(admin: Admin, msg_id: str, topic: str | None) -> ReceivedMessage:
    """Raises NotFound."""
    from mqctl.client.admin.messages import by_id

    return await by_id(admin, msg_id, topic)


TRACKS: Final = [Column("group"), Column("trackType", "STATE"), Column("why", wide=True)]


@app.command(cls=AdminCommand)
def track(ctx: typer.Context, msg_id: Annotated[str, IdArgument], topic: TopicOption = None) -> None:
    """Say which consumer groups have consumed a message, as far as their offsets tell.

    \b
    Examples:
      mqctl msg track 7F000001A1B218B4AAC2017F3E2C0000 -t orders
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from mqctl.client.admin.messages import brokers_of_topic
        from mqctl.client.admin.tracks import track as tracks_of

        message = await find(admin, msg_id, topic)
        tracks = await tracks_of(admin, await brokers_of_topic(admin, message.topic), message)
        return [{"group": each.group, "trackType": each.type, "why": each.why} for each in tracks]

    session.print_rows(TRACKS, session.ask(work))
