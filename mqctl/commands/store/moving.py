"""`mqctl store export` and `import`: messages out of a store, and into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, TextIO, cast

import typer

from mqctl.commands.common import LocalCommand, Session, session_of
from mqctl.commands.store.shared import (
    CommitlogOption,
    DirArgument,
    Progress,
    SinceOption,
    UntilOption,
    app,
    open_store,
    time_option,
)
from mqctl.errors import MqError, NotFound, StoreError
from mqctl.exit import ExitCode
from mqctl.figures import count_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.store.offline.folder import StoreFolder
    from mqctl.store.offline.stream import Exported

_STANDARD: Final = Path("-")
_DEFAULT_PORT: Final = 10911  # RocketMQ's listenPort


@contextmanager
def _opened(path: Path, mode: str, standard: TextIO) -> Iterator[BinaryIO]:
    try:
        if path == _STANDARD:
            yield standard.buffer
            standard.buffer.flush()
        else:
            with path.open(mode) as file:
                yield cast(BinaryIO, file)
    except FileNotFoundError as error:
        raise NotFound(f"{error.filename or path} does not exist") from None
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error


# -- export ---------------------------------------------------------------------------------------------


@app.command(cls=LocalCommand)
def export(
    ctx: typer.Context,
    directory: DirArgument,
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to; - is stdout.")] = _STANDARD,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="May be given several times.")
    ] = None,
    queue: Annotated[int | None, typer.Option("--queue", metavar="N", min=0, help="Only queues so numbered.")] = None,
    start: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="From this queue offset on.")] = 0,
    count: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="So many offsets.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    commitlog: CommitlogOption = None,
) -> None:
    """Write messages as a stream of msgpack objects, which `import` reads.

    All that is given must fit. Messages come in the order of the log, those of deleted topics too; bodies are as
    stored. Damaged places are told on stderr, and the exit status is then 1.

    \b
    Examples:
      mqctl store export ~/store all.msgpack
      mqctl store export ~/store --topic orders --from -2h > orders.msgpack
    """
    from mqctl.store.offline.stream import Writer
    from mqctl.store.offline.transfer import Selection
    from mqctl.store.offline.transfer import export as run

    session = session_of(ctx)
    if file == _STANDARD and session.env.on_terminal:
        raise typer.BadParameter("these bytes are not for a terminal: name a file, or use a pipe", param_hint="FILE")
    selection = Selection(
        topics=None if topics is None else frozenset(topics),
        queue_id=queue,
        start=start,
        stop=None if count is None else start + count,
        since=time_option(session, since, "--from"),
        until=time_option(session, until, "--to"),
    )
    store, progress, damages = open_store(directory, commitlog), Progress(session, "read"), 0

    def warn(start: int, end: int, what: str) -> None:
        nonlocal damages
        damages += 1
        progress.clear()
        session.env.say(f"warning: log offset {start}: {what}")

    with _opened(file, "wb", session.env.stdout) as target:
        writer = Writer(target)
        for message in run(store, selection, warn, progress):
            writer.write(message)
        writer.finish()
    progress.clear()
    session.env.say(f"{writer.count} messages")
    if damages:
        raise typer.Exit(ExitCode.REFUSED)


# -- import ---------------------------------------------------------------------------------------------

IMPORTED: Final = [Column("topic"), Column("queueId"), Column("messages", show=count_text)]


@app.command("import", cls=LocalCommand)
def import_messages(
    ctx: typer.Context,
    directory: DirArgument,
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where from; - is stdin.")] = _STANDARD,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read and count.")] = False,
    store_host: Annotated[
        str | None,
        typer.Option("--store-host", metavar="IP:PORT", help="The broker's address, for message ids."),
    ] = None,
    commitlog: CommitlogOption = None,
) -> None:
    """Append the messages of a stream to a store, as its broker would.

    They get new offsets and a new store time; topic, queue, body, keys and all other properties, born time and host
    stay. Topics that are missing are added to config/topics.json. DIR may be an empty folder: then it gets a store
    with RocketMQ's file sizes. Without --store-host the address is that of the newest message in the store.

    \b
    Examples:
      mqctl store import ~/store all.msgpack --dry-run
      gunzip < orders.gz | mqctl store import ~/store --store-host 10.0.0.1:10911
    """
    from mqctl.store.offline.stream import read
    from mqctl.store.offline.transfer import new_message

    session = session_of(ctx)
    store = _target(directory, commitlog)
    host = _host(store_host, store)
    counts: Counter[tuple[str, int]] = Counter()
    with _opened(file, "rb", session.env.stdin) as source:
        if dry_run:
            for message in read(source):
                new_message(message, 0, ())
                counts[message.topic, message.queue_id] += 1
        else:
            _append(session, directory, commitlog, store, host, read(source), counts)
    rows = [
        {"topic": topic, "queueId": queue_id, "messages": number}
        for (topic, queue_id), number in sorted(counts.items())
    ]
    session.print_rows(IMPORTED, rows)
    session.env.say(f"{counts.total()} messages {'would be' if dry_run else 'were'} appended")


def _target(directory: Path, commitlog: Path | None) -> StoreFolder | None:
    """None for an empty folder. Raises NotFound for one that holds something else, or does not exist."""
    try:
        if not directory.exists():
            raise NotFound(f"{directory} does not exist", hint="make an empty folder, and it gets a new store")
        if directory.is_dir() and not any(directory.iterdir()):
            return None
    except OSError as error:
        raise StoreError(f"cannot read {directory}: {error.strerror}") from error
    return open_store(directory, commitlog)


def _host(text: str | None, store: StoreFolder | None) -> tuple[str, int]:
    from mqctl.store.record import pack_host, unpack_host

    if text is not None:
        address, _, port = text.rpartition(":")
        try:
            return unpack_host(pack_host(address.strip("[]"), int(port)))
        except (ValueError, OverflowError):
            raise typer.BadParameter(f"{text!r} is not IP:PORT", param_hint="--store-host") from None
    last = store.last_record()[1] if store is not None else None
    if last is not None:
        return unpack_host(last.fields[11])
    from mqctl.server.broker.config import local_address

    return local_address(), _DEFAULT_PORT


def _append(
    session: Session,
    directory: Path,
    commitlog: Path | None,
    folder: StoreFolder | None,
    host: tuple[str, int],
    messages: Iterator[Exported],
    counts: Counter[tuple[str, int]],
) -> None:
    from mqctl.remoting import fastjson
    from mqctl.store.offline.changing import locked
    from mqctl.store.offline.topicsfile import list_topics
    from mqctl.store.offline.transfer import append_all, config_of
    from mqctl.store.store import MessageStore

    with locked(directory):
        pass  # the store takes the lock itself; this one tells what else can be done
    store = MessageStore(config_of(folder, directory, commitlog), host)
    store.open()
    failure: MqError | None = None
    try:
        append_all(store, messages, counts)
    except MqError as error:
        failure = error
    finally:
        store.close()
    queues: dict[str, int] = {}
    for topic, queue_id in counts:
        queues[topic] = max(queues.get(topic, 0), queue_id + 1)
    for topic in list_topics(directory, queues, fastjson.loads, fastjson.dumps_pretty):
        session.env.say(f"topic {topic} was added to config/topics.json")
    if failure is not None:
        session.env.say(f"{counts.total()} messages were appended before this:")
        raise failure
