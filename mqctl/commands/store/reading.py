"""`mqctl store cat`, `get`, `grep`: messages, from queues, by their place or by what they hold."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.common import LocalCommand, session_of
from mqctl.commands.store.shared import (
    CommitlogOption,
    DirArgument,
    Progress,
    SinceOption,
    UntilOption,
    app,
    open_store,
    print_one,
    time_option,
)
from mqctl.errors import NotFound
from mqctl.exit import ExitCode
from mqctl.output import Format

if TYPE_CHECKING:
    from mqctl.store.offline.folder import StoreFolder
    from mqctl.store.record import Record


@app.command(cls=LocalCommand)
def cat(
    ctx: typer.Context,
    directory: DirArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    queue: Annotated[int | None, typer.Argument(metavar="[QUEUE]", min=0, help="Only this queue.")] = None,
    start: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="From this queue offset on.")] = 0,
    count: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="So many from each queue.")] = None,
    commitlog: CommitlogOption = None,
) -> None:
    """Print the messages of a topic, queue by queue.

    With -o json every message is one line of JSON; a body that is not text stands in bodyBase64. Entries that lead to
    no message are told on stderr, and the exit status is then 1.

    \b
    Examples:
      mqctl store cat ~/store orders
      mqctl store cat ~/store orders 3 --offset 1000 --count 10 -o json
    """
    from mqctl.commands.store.rows import MESSAGE, message_line, message_row

    session = session_of(ctx)
    store = open_store(directory, commitlog)
    queues = store.queues_of(topic, queue)
    write = session.stream(MESSAGE, message_line)
    whole = True
    for each in queues:
        first = max(start, each.min_offset)
        for found in store.messages(each, first, each.max_offset if count is None else first + count):
            if isinstance(found, str):
                whole = False
                session.env.say(f"warning: {found}")
            else:
                write(message_row(found))
    if not whole:
        raise typer.Exit(ExitCode.REFUSED)


@app.command(cls=LocalCommand)
def get(
    ctx: typer.Context,
    directory: DirArgument,
    phys_offset: Annotated[int | None, typer.Option("--offset", metavar="N", min=0, help="Its log offset.")] = None,
    msg_id: Annotated[
        str | None, typer.Option("--id", metavar="MSGID", help="Its offset message id, or its unique key.")
    ] = None,
    commitlog: CommitlogOption = None,
) -> None:
    """Show one record with all its fields.

    An id is first taken for an offset message id, which names the place; if another record or none is there, the log
    is searched for a message with this unique key.

    \b
    Examples:
      mqctl store get ~/store --offset 4711
      mqctl store get ~/store --id 7F000001000051AF0000000000000000 -o yaml
    """
    from mqctl.commands.store.rows import RECORD, record_row

    if (phys_offset is None) == (msg_id is None):
        raise typer.BadParameter("give one of them", param_hint="--offset / --id")
    session = session_of(ctx)
    store = open_store(directory, commitlog)
    if phys_offset is not None:
        found = _record_at(store, phys_offset)
    else:
        found = _record_of(store, str(msg_id), Progress(session, "searched"))
    print_one(session, RECORD, record_row(found))


def _record_at(store: StoreFolder, phys_offset: int) -> Record:
    from mqctl.store.record import RecordError

    try:
        return store.record_at(phys_offset)
    except RecordError as error:
        raise NotFound(f"{store.root}: {error}") from None


def _record_of(store: StoreFolder, msg_id: str, progress: Progress) -> Record:
    from mqctl.commands.store.rows import body_of
    from mqctl.store.offline.search import Query, search
    from mqctl.store.properties import UNIQ_KEY
    from mqctl.store.record import decode_msg_id

    try:
        host, phys_offset = decode_msg_id(msg_id)
        found = _record_at(store, phys_offset)
        if found.store_host == host:
            return found
    except (ValueError, NotFound):
        pass
    # Damage elsewhere in the log is no answer to this question: `verify` tells it.
    query = Query(properties=[(UNIQ_KEY, msg_id)])
    found_by_key = next(search(store, query, body_of, lambda start, end, what: None, progress), None)
    progress.clear()
    if found_by_key is None:
        raise NotFound(f"{store.root} has no message with id {msg_id}")
    return found_by_key


@app.command(cls=LocalCommand)
def grep(
    ctx: typer.Context,
    directory: DirArgument,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="One of its keys, or its unique key.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="May be given several times.")
    ] = None,
    body: Annotated[str | None, typer.Option("--body", metavar="REGEX", help="Found anywhere in the body.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    max_count: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after so many messages.")
    ] = None,
    commitlog: CommitlogOption = None,
) -> None:
    """Search the whole log, also for messages of topics that were deleted.

    All that is given must fit. Each message is printed as it is found, as one line of JSON unless -o says otherwise.
    Times are written as -10m, 2024-05-31T12:00 or milliseconds. Like grep, it ends with status 1 if nothing is found.

    \b
    Examples:
      mqctl store grep ~/store --key 4711
      mqctl store grep ~/store --topic orders --property region=eu --from -2h
      mqctl store grep ~/store --body '"total": *0[,}]' -o table
    """
    from mqctl.commands.store.rows import MESSAGE, body_of, message_line, message_row
    from mqctl.store.offline.search import Query, search

    session = session_of(ctx)
    query = Query(
        topic=topic,
        key=key,
        properties=[_pair(text) for text in properties or ()],
        body=_pattern(body),
        since=time_option(session, since, "--from"),
        until=time_option(session, until, "--to"),
    )
    store = open_store(directory, commitlog)
    session.output = session.output or Format.JSON
    write, progress = session.stream(MESSAGE, message_line), Progress(session, "searched")

    def warn(start: int, end: int, what: str) -> None:
        progress.clear()
        session.env.say(f"warning: log offset {start}: {what}")

    count = 0
    for found in islice(search(store, query, body_of, warn, progress), max_count):
        progress.clear()
        write(message_row(found))
        count += 1
    progress.clear()
    if not count:
        raise typer.Exit(ExitCode.REFUSED)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(text.encode(errors="surrogateescape"))
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is no regular expression: {error}", param_hint="--body") from None
