"""`mqctl store`: look into a store folder, with or without a broker on it. All of it only reads."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.errors import NotFound
from mqctl.exit import ExitCode
from mqctl.output import Column, Format, Row, cell_text
from mqctl.times import parse_time, time_text

if TYPE_CHECKING:
    from mqctl.store.inspect import QueueFiles, StoreFolder
    from mqctl.store.record import Record

app = noun("Look into a store folder, check it, search it; never change it.")

DirArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder storePathRootDir names: the one that holds commitlog.")
]
TopicName = Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Only this topic.")]

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")

# Progress is shown when a check takes longer than this; where nobody watches, in lines, and less often.
PROGRESS_S: Final = 1.0
PROGRESS_LINES_S: Final = 10.0


def _open(directory: Path) -> StoreFolder:
    from mqctl.store.inspect import StoreFolder

    return StoreFolder(directory)


def _size_text(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size_bytes} B"


def _print_one(session: Session, columns: list[Column], row: Row) -> None:
    """One thing with many members: for people one member per line."""
    if session.output in (None, Format.TABLE):
        lines = [{"field": column.name, "value": column.text(row)} for column in columns]
        session.print_rows([Column("field"), Column("value")], lines)
    else:
        session.stream(columns, str)(row)


# -- info -----------------------------------------------------------------------------------------------

INFO: Final = [
    Column("clean", show=lambda clean: "yes" if clean else "no: in use, or its broker did not stop cleanly"),
    Column("commitLogFiles"),
    Column("commitLogFileSize", show=_size_text),
    Column("commitLogMinOffset"),
    Column("commitLogMaxOffset"),
    Column("commitLogBytes", show=_size_text),
    Column("commitLogDiskBytes", show=_size_text),
    Column("firstStoreTimestamp", show=time_text),
    Column("lastStoreTimestamp", show=time_text),
    Column("topics"),
    Column("queues"),
    Column("messages"),
    Column("configFiles"),
]


@app.command(cls=AdminCommand)
def info(ctx: typer.Context, directory: DirArgument) -> None:
    """Show what a store folder holds.

    A store with the file `abort` is not clean: a broker runs on it, or ended without closing it.

    \b
    Examples:
      mqctl store info /var/lib/mqctl/store
      mqctl store info ~/store -o json
    """
    found = _open(directory).info()
    row = {
        "clean": found.clean,
        "commitLogFiles": found.log_files,
        "commitLogFileSize": found.log_file_size,
        "commitLogMinOffset": found.log_begin,
        "commitLogMaxOffset": found.log_end,
        "commitLogBytes": found.size_bytes,
        "commitLogDiskBytes": found.disk_bytes,
        "firstStoreTimestamp": found.first_store_timestamp,
        "lastStoreTimestamp": found.last_store_timestamp,
        "topics": found.topics,
        "queues": found.queues,
        "messages": found.messages,
        "configFiles": found.config_files,
    }
    _print_one(session_of(ctx), INFO, row)


# -- ls -------------------------------------------------------------------------------------------------

QUEUES: Final = [Column(name) for name in ("topic", "queueId", "minOffset", "maxOffset", "messages")]


@app.command("ls", cls=AdminCommand)
def list_queues(ctx: typer.Context, directory: DirArgument, topic: TopicName = None) -> None:
    """List the queues of a store.

    A message that is not in its consume queue yet, because the broker has just stored it, is not counted.

    \b
    Examples:
      mqctl store ls ~/store
      mqctl store ls ~/store orders -o csv
    """
    session_of(ctx).print_rows(QUEUES, [_queue_row(queue) for queue in _open(directory).queues_of(topic)])


def _queue_row(queue: QueueFiles) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "minOffset": queue.min_offset,
        "maxOffset": queue.max_offset,
        "messages": queue.messages,
    }


# -- messages -------------------------------------------------------------------------------------------

MESSAGE: Final = [
    Column("topic"),
    Column("queueId"),
    Column("queueOffset"),
    Column("commitLogOffset"),
    Column("storeSize"),
    Column("storeTimestamp", show=time_text),
    Column("bornTimestamp", show=time_text),
    Column("offsetMsgId"),
    Column("msgId"),
    Column("tags"),
    Column("keys"),
    Column("body"),
    Column("bodyBase64"),
    Column("properties"),
]
RECORD: Final = [
    *MESSAGE,
    *(Column(name) for name in ("bodyCRC", "flag", "sysFlag", "bornHost", "storeHost", "reconsumeTimes")),
    Column("preparedTransactionOffset"),
]


def _body(found: Record) -> bytes:
    """As its producer had it; as it is stored where it does not expand."""
    from mqctl.remoting.compression import CompressionError, decompress

    try:
        return decompress(found.body, found.sys_flag)
    except CompressionError:
        return found.body


def _message_row(found: Record) -> dict[str, Any]:
    """`body` where it is UTF-8 text, else `bodyBase64`; the other one is null."""
    from mqctl.store.properties import KEY_SEPARATOR, KEYS, TAGS, UNIQ_KEY, parse_properties
    from mqctl.store.record import encode_msg_id, pack_host

    body = _body(found)
    try:
        text: str | None = body.decode()
    except UnicodeDecodeError:
        text = None
    properties = parse_properties(found.properties)
    offset_msg_id = encode_msg_id(pack_host(*found.store_host), found.phys_offset)
    return {
        "topic": found.topic,
        "queueId": found.queue_id,
        "queueOffset": found.queue_offset,
        "commitLogOffset": found.phys_offset,
        "storeSize": found.size,
        "storeTimestamp": found.store_timestamp,
        "bornTimestamp": found.born_timestamp,
        "offsetMsgId": offset_msg_id,
        "msgId": properties.get(UNIQ_KEY, offset_msg_id),
        "tags": properties.get(TAGS),
        "keys": [key for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key],
        "body": text,
        "bodyBase64": None if text is not None else base64.b64encode(body).decode(),
        "properties": properties,
    }


def _message_line(row: Row) -> str:
    body = row["body"] if row["body"] is not None else f"base64:{row['bodyBase64']}"
    labels = "".join(f" {name}={cell_text(row[name])}" for name in ("tags", "keys") if row[name])
    return f"{time_text(row['storeTimestamp'])} {row['topic']}/{row['queueId']}@{row['queueOffset']}{labels} {body}"


@app.command(cls=AdminCommand)
def cat(
    ctx: typer.Context,
    directory: DirArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    queue: Annotated[int | None, typer.Argument(metavar="[QUEUE]", min=0, help="Only this queue.")] = None,
    start: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="From this queue offset on.")] = 0,
    count: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="So many from each queue.")] = None,
) -> None:
    """Print the messages of a topic, queue by queue.

    With -o json every message is one line of JSON; a body that is not text stands in bodyBase64. Entries that lead to
    no message are told on stderr, and the exit status is then 1.

    \b
    Examples:
      mqctl store cat ~/store orders
      mqctl store cat ~/store orders 3 --offset 1000 --count 10 -o json
    """
    session = session_of(ctx)
    store = _open(directory)
    queues = store.queues_of(topic, queue)
    write = session.stream(MESSAGE, _message_line)
    whole = True
    for each in queues:
        first = max(start, each.min_offset)
        for found in store.messages(each, first, each.max_offset if count is None else first + count):
            if isinstance(found, str):
                whole = False
                session.env.say(f"warning: {found}")
            else:
                write(_message_row(found))
    if not whole:
        raise typer.Exit(ExitCode.REFUSED)


@app.command(cls=AdminCommand)
def get(
    ctx: typer.Context,
    directory: DirArgument,
    phys_offset: Annotated[int | None, typer.Option("--offset", metavar="N", min=0, help="Its log offset.")] = None,
    msg_id: Annotated[
        str | None, typer.Option("--id", metavar="MSGID", help="Its offset message id, or its unique key.")
    ] = None,
) -> None:
    """Show one record with all its fields.

    An id is first taken for an offset message id, which names the place; if another record or none is there, the log
    is searched for a message with this unique key.

    \b
    Examples:
      mqctl store get ~/store --offset 4711
      mqctl store get ~/store --id 7F000001000051AF0000000000000000 -o yaml
    """
    if (phys_offset is None) == (msg_id is None):
        raise typer.BadParameter("give one of them", param_hint="--offset / --id")
    store = _open(directory)
    found = _record_at(store, phys_offset) if phys_offset is not None else _record_of(store, str(msg_id))
    _print_one(session_of(ctx), RECORD, _record_row(found))


def _record_at(store: StoreFolder, phys_offset: int) -> Record:
    from mqctl.store.record import RecordError

    try:
        return store.record_at(phys_offset)
    except RecordError as error:
        raise NotFound(f"{store.root}: {error}") from None


def _record_of(store: StoreFolder, msg_id: str) -> Record:
    from mqctl.store.inspect import Query, search
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
    found_by_key = next(search(store, Query(properties=[(UNIQ_KEY, msg_id)]), _body, lambda place, what: None), None)
    if found_by_key is None:
        raise NotFound(f"{store.root} has no message with id {msg_id}")
    return found_by_key


def _record_row(found: Record) -> dict[str, Any]:
    return {
        **_message_row(found),
        "bodyCRC": found.body_crc,
        "flag": found.flag,
        "sysFlag": found.sys_flag,
        "bornHost": _host_text(found.born_host),
        "storeHost": _host_text(found.store_host),
        "reconsumeTimes": found.reconsume_times,
        "preparedTransactionOffset": found.prepared_offset,
    }


def _host_text(host: tuple[str, int]) -> str:
    return f"[{host[0]}]:{host[1]}" if ":" in host[0] else f"{host[0]}:{host[1]}"


# -- verify ---------------------------------------------------------------------------------------------

FINDINGS: Final = [Column("severity"), Column("file"), Column("position"), Column("what")]


@app.command(cls=AdminCommand)
def verify(ctx: typer.Context, directory: DirArgument) -> None:
    """Check a store: every record, every queue entry, the config files.

    Prints what is wrong, and where. `damage` makes the exit status 1; a `note` is something that is normal under the
    circumstances, such as the records of a deleted topic. Beside a running broker the check covers what was there
    when it began.

    \b
    Examples:
      mqctl store verify ~/store
      mqctl store verify ~/store -o json
    """
    from mqctl.remoting import fastjson
    from mqctl.store.verify import verify as run

    session = session_of(ctx)
    progress = _Progress(session)
    report = run(_open(directory), fastjson.loads, progress)
    progress.end()
    session.print_rows(FINDINGS, [finding._asdict() for finding in report.findings])
    damages = sum(finding.severity == "damage" for finding in report.findings)
    verdict = f"damage in {damages} places" if damages else "no damage"
    session.env.say(f"{report.records} records, {report.entries} queue entries: {verdict}")
    if report.damaged:
        raise typer.Exit(ExitCode.REFUSED)


class _Progress:
    """Says on stderr how far the work is: on a terminal in one line that changes."""

    def __init__(self, session: Session) -> None:
        self._env = session.env
        self._terminal = self._env.stderr.isatty()
        self._next = self._env.clock() + PROGRESS_S
        self._open = False

    def __call__(self, done: int, total: int) -> None:
        now = self._env.clock()
        if now < self._next:
            return
        self._next = now + (PROGRESS_S if self._terminal else PROGRESS_LINES_S)
        text = f"checked {_size_text(done)} of {_size_text(total)}"
        if not self._terminal:
            self._env.say(text)
            return
        self._open = True
        self._env.stderr.write(f"\r{text:<40}")
        self._env.stderr.flush()

    def end(self) -> None:
        if self._open:
            self._env.stderr.write("\n")


# -- du -------------------------------------------------------------------------------------------------

USAGE: Final = [Column("topic"), Column("queueId"), Column("messages"), Column("bytes")]
TAG_USAGE: Final = [*USAGE[:2], Column("tagsCode"), *USAGE[2:]]


@app.command(cls=AdminCommand)
def du(
    ctx: typer.Context,
    directory: DirArgument,
    topic: TopicName = None,
    tags: Annotated[bool, typer.Option("--tags", help="Also by the hash of the tag.")] = False,
) -> None:
    """Show how many messages and bytes of the log each queue has.

    Only the consume queues are read, so this is quick however large the log is. They hold hashes of tags, not the tags.

    \b
    Examples:
      mqctl store du ~/store
      mqctl store du ~/store orders --tags
    """
    from mqctl.store.inspect import usage, usage_by_tag

    rows: list[dict[str, Any]] = []
    for queue in _open(directory).queues_of(topic):
        place = {"topic": queue.topic, "queueId": queue.queue_id}
        if tags:
            for tags_code, used in usage_by_tag(queue).items():
                rows.append({**place, "tagsCode": tags_code, "messages": used.messages, "bytes": used.size_bytes})
        else:
            used = usage(queue)
            rows.append({**place, "messages": used.messages, "bytes": used.size_bytes})
    session_of(ctx).print_rows(TAG_USAGE if tags else USAGE, rows)


# -- grep -----------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def grep(
    ctx: typer.Context,
    directory: DirArgument,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="One of its keys, or its unique key.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="May be given several times.")
    ] = None,
    body: Annotated[str | None, typer.Option("--body", metavar="REGEX", help="Found anywhere in the body.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC")] = None,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Stored then or later.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Stored before.")] = None,
    max_count: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after so many messages.")
    ] = None,
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
    from mqctl.store.inspect import Query, search

    session = session_of(ctx)
    query = Query(
        topic=topic,
        key=key,
        properties=[_pair(text) for text in properties or ()],
        body=_pattern(body),
        since=_time(session, since, "--from"),
        until=_time(session, until, "--to"),
    )
    store = _open(directory)
    session.output = session.output or Format.JSON
    found = search(store, query, _body, lambda place, what: session.env.say(f"warning: log offset {place}: {what}"))
    if not _write_all(session.stream(MESSAGE, _message_line), islice(found, max_count)):
        raise typer.Exit(ExitCode.REFUSED)


def _write_all(write: Callable[[Row], None], messages: Iterable[Record]) -> bool:
    """Whether there were any."""
    any_found = False
    for message in messages:
        write(_message_row(message))
        any_found = True
    return any_found


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


def _time(session: Session, text: str | None, option: str) -> int | None:
    try:
        return None if text is None else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
