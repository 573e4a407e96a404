"""What the commands about dead letters share: choosing among a group's letters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.common import noun
from mqctl.commands.completing import complete_topics

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.selecting import Selection
    from mqctl.errors import MqError
    from mqctl.remoting.message import ReceivedMessage

app = noun("List dead letters, show them, send them again, export them.")

OriginOption = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--topic",
        metavar="TOPIC",
        autocompletion=complete_topics,
        help="Only those that were sent to this topic.",
    ),
]
TagsOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only this tag; may be given several times.")
]
IdsOption = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only this message; may be given several times.")
]
MinTriesOption = Annotated[int, typer.Option("--min-tries", min=0, metavar="N", help="Delivered so often at least.")]
MaxTriesOption = Annotated[
    int | None, typer.Option("--max-tries", min=0, metavar="N", help="Delivered so often at most.")
]
MaxOption = Annotated[int | None, typer.Option("--max", min=1, metavar="N", help="So many at most.")]


async def letters_of(
    admin: Admin, group: str, selection: Selection, max_count: int | None, missing: dict[str, MqError]
) -> AsyncIterator[ReceivedMessage]:
    """The oldest first; brokers that do not answer go to `missing`. Raises NotFound for a group without any."""
    from mqctl.client.admin.deadletters import find_dead_letter_topic
    from mqctl.commands.msg.reading import selected

    count = 0
    topic = await find_dead_letter_topic(admin, group)
    async for letter in selected(admin, topic, "*", selection, missing=missing):
        yield letter
        count += 1
        if count == max_count:
            return
