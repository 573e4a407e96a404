"""`mqctl msg tail` and `mqctl msg print`: what arrives in a topic, and what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.msg.shared import (
    BrokerOption,
    FormatOption,
    MatchOption,
    SinceOption,
    SqlOption,
    TagOption,
    TopicArgument,
    UntilOption,
    app,
    message_row,
    place_of,
    selection_of,
    writer,
)
from mqctl.commands.telling import report_missing
from mqctl.figures import count_text
from mqctl.output import Column, Row
from mqctl.times import parse_time

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.selecting import Selection
    from mqctl.client.admin.tailing import Start
    from mqctl.errors import MqError
    from mqctl.remoting.message import ReceivedMessage


@app.command(cls=AdminCommand)
def tail(
    ctx: typer.Context,
    topic: TopicArgument,
    tag: TagOption = "*",
    start: Annotated[
        str,
        typer.Option("--from", metavar="WHEN", help="earliest, latest, or a time such as -10m or 2024-05-31T12:00."),
    ] = "latest",
    max_count: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after so many messages.")
    ] = None,
    sql: SqlOption = None,
    match: MatchOption = None,
    template: FormatOption = None,
) -> None:
    """Follow a topic: print messages as they arrive, until Ctrl-C.

    Reads all queues of all brokers, without a consumer group: no offset is stored, no consumer is disturbed. With
    -o json every message is one line of JSON.

    \b
    Examples:
      mqctl msg tail orders
      mqctl msg tail orders --from earliest --max 10
      mqctl msg tail orders --tag 'paid || shipped' -o json
      mqctl msg tail orders --sql "price >= 100" --format '{keys} {body}'
    """
    session = session_of(ctx)
    begin = _start(session, start)
    selection = selection_of(session, sql=sql, match=match)
    write = writer(session, template)
    try:
        silent = session.ask(lambda admin: _tail(session, admin, topic, tag, begin, max_count, selection, write))
    except KeyboardInterrupt:
        return  # the normal way to end it
    report_missing(session, silent)


def _start(session: Session, text: str) -> Start | int:
    from mqctl.client.admin.tailing import Start

    try:
        return Start(text) if text in ("earliest", "latest") else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None


async def _tail(
    session: Session,
    admin: Admin,
    topic: str,
    tags: str,
    start: Start | int,
    max_count: int | None,
    selection: Selection,
    write: Callable[[Row], None],
) -> dict[str, MqError]:
    """The brokers that never answered, by name."""
    from contextlib import aclosing

    from mqctl.client.admin.tailing import Tail

    def on_trouble(error: MqError) -> None:
        session.env.say(f"warning: {error.message}; trying again")

    following = Tail(admin, topic, tags=tags, start=start, on_trouble=on_trouble)
    queues = await following.open()
    session.env.say(f"following {topic}: {queues} queues, Ctrl-C to stop")
    count = 0
    async with aclosing(following.messages()) as messages:
        async for message in messages:
            if not selection.fits(message):
                continue
            write(message_row(message))
            count += 1
            if count == max_count:
                break
    return following.silent


# -- print ----------------------------------------------------------------------------------------------

COUNTS: Final = [Column("tags", "TAG"), Column("messages", show=count_text)]


@app.command("print", cls=AdminCommand)
def print_messages(
    ctx: typer.Context,
    topic: TopicArgument,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="[BROKER:]N", help="Only this queue; without a broker at all.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tag: TagOption = "*",
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only those with this key.")] = None,
    sql: SqlOption = None,
    match: MatchOption = None,
    max_count: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after so many messages.")
    ] = None,
    start: Annotated[int, typer.Option("--offset", min=0, metavar="N", help="From this queue offset on.")] = 0,
    by_tag: Annotated[bool, typer.Option("--by-tag", help="Only count them, by tag.")] = False,
    template: FormatOption = None,
    broker: BrokerOption = None,
) -> None:
    """Print what a topic holds, in the order it was stored in.

    Reads without a consumer group, and ends with the last message that was there at the start.

    \b
    Examples:
      mqctl msg print orders --since 10m
      mqctl msg print orders --queue broker-a:3 --max 20 -o json
      mqctl msg print orders --since 1d --by-tag
      mqctl msg print orders --match 'card.*declined' --format '{msgId} {body}'
    """
    session = session_of(ctx)
    place = (broker, None) if queue is None else place_of(queue, broker)
    selection = selection_of(session, sql=sql, match=match, since=since, until=until, key=key)
    counts: Counter[str] = Counter()
    missing: dict[str, MqError] = {}
    write = None if by_tag else writer(session, template)

    async def work(admin: Admin) -> None:
        number = 0
        async for message in selected(admin, topic, tag, selection, place, start, missing):
            if write is None:
                counts[message.tags] += 1
            else:
                write(message_row(message))
            number += 1
            if number == max_count:
                return

    session.ask(work)
    if by_tag:
        session.print_rows(COUNTS, [{"tags": name, "messages": number} for name, number in counts.most_common()])
    report_missing(session, missing)


async def selected(
    admin: Admin,
    topic: str,
    tags: str,
    selection: Selection,
    place: tuple[str | None, int | None] = (None, None),
    start: int = 0,
    missing: dict[str, MqError] | None = None,
) -> AsyncIterator[ReceivedMessage]:
    """What a topic holds, as far as it fits. Brokers that do not answer go to `missing`, or their error is raised."""
    from mqctl.client.admin.scanning import find_spans, read_spans

    broker_name, queue_id = place
    spans = await find_spans(
        admin, topic, since=selection.since, start=start, broker_name=broker_name, queue_id=queue_id, missing=missing
    )
    async for message in read_spans(
        admin, spans, tags=tags, since=selection.since, until=selection.until, missing=missing
    ):
        if selection.fits(message):
            yield message
