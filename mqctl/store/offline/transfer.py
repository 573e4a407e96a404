"""Messages out of one store and into another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqctl.store.indexfile import Geometry
from mqctl.store.offline.entries import has_entry, place_problem, tags_code
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.logscan import STEP, OnDamage, OnProgress, RawRecord, no_progress
from mqctl.store.offline.sizes import index_geometry, log_file_size, queue_file_size
from mqctl.store.offline.stream import Exported, StreamError
from mqctl.store.record import MAX_TOPIC, pack_host, unpack_host
from mqctl.store.schedule import waiting_code
from mqctl.store.store import MessageStore, NewMessage, StoreConfig

# So many bytes are written to the log at once.
COMMIT_BYTES: Final = 4 * 1024 * 1024


# -- out ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages; everything that is given must fit. `until` and `stop` are not included."""

    topics: Container[str] | None = None
    queue_id: int | None = None
    start: int = 0  # queue offsets
    stop: int | None = None
    since: int | None = None  # store times
    until: int | None = None

    def fits(self, raw: RawRecord) -> bool:
        fields = raw.fields
        return (
            (self.topics is None or raw.topic.decode(errors="replace") in self.topics)
            and (self.queue_id is None or fields[3] == self.queue_id)
            and self.start <= fields[5]
            and (self.stop is None or fields[5] < self.stop)
            and (self.since is None or fields[10] >= self.since)
            and (self.until is None or fields[10] < self.until)
            and has_entry(fields[7])
        )


def export(
    store: StoreFolder, selection: Selection, on_damage: OnDamage, on_progress: OnProgress = no_progress
) -> Iterator[Exported]:
    """What the log holds, in its order; also of topics that were deleted."""
    scan = store.scan(on_damage, None if selection.since is None else store.file_from(selection.since))
    begin = next_step = scan.place
    for raw in scan:
        if selection.fits(raw):
            yield _exported(raw)
        if scan.place >= next_step:
            on_progress(scan.place - begin, store.log.end - begin)
            next_step = scan.place + STEP


def _exported(raw: RawRecord) -> Exported:
    fields = raw.fields
    return Exported(
        topic=raw.topic.decode(errors="replace"),
        queue_id=fields[3],
        body=raw.buffer[raw.body_at : raw.body_at + fields[-1]],
        properties=raw.properties,
        flag=fields[4],
        sys_flag=fields[7],
        born_timestamp=fields[8],
        born_host=unpack_host(fields[9]),
        reconsume_times=fields[12],
        queue_offset=fields[5],
        commit_log_offset=fields[6],
        store_timestamp=fields[10],
        store_host=unpack_host(fields[11]),
        prepared_transaction_offset=fields[13],
    )


# -- in -------------------------------------------------------------------------------------------------


def config_of(store: StoreFolder | None, root: Path, commitlog: Path | None) -> StoreConfig:
    """How a broker has to be configured for a store; None where there is nothing in the folder yet."""
    commitlog_dir = commitlog or root / "commitlog"
    if store is None:
        return StoreConfig(root=root, commitlog_dir=commitlog_dir)
    has_index = (root / "index").is_dir() or not store.log.files
    geometry: Geometry | None = index_geometry(store) if has_index else None
    return StoreConfig(
        root=root,
        commitlog_dir=commitlog_dir,
        commitlog_file_size=log_file_size(store),
        queue_file_size=queue_file_size(store),
        index=geometry,
    )


def new_message(message: Exported, now_ms: int, delay_levels_ms: tuple[int, ...]) -> NewMessage:
    """What a store is to append for it. Raises StreamError for what no broker would take."""
    topic = message.topic.encode()
    problem = place_problem(topic, message.queue_id)
    if len(topic) > MAX_TOPIC:
        problem = f"the topic has {len(topic)} bytes, at most {MAX_TOPIC} fit"
    try:
        born_host = pack_host(*message.born_host)
    except ValueError as error:
        problem, born_host = f"bornHost: {error}", b""
    if problem is not None:
        raise StreamError(f"message {message.topic}/{message.queue_id}@{message.queue_offset}: {problem}")
    waits = waiting_code(message.topic, message.properties.decode(errors="replace"), now_ms, delay_levels_ms)
    return NewMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        body=message.body,
        properties=message.properties,
        tags_code=tags_code(message.properties) if waits is None else waits,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=born_host,
        reconsume_times=message.reconsume_times,
    )


def append_all(store: MessageStore, messages: Iterable[Exported], counts: Counter[tuple[str, int]]) -> None:
    """Appends to an open store, in the order of the stream. `counts` tells at any time how many messages of each
    queue are stored, also after an error: what came before it stays."""
    waiting: list[tuple[str, int]] = []
    size_bytes = 0
    try:
        for message in messages:
            appended = store.put(new_message(message, store.now_ms(), store.config.delay_levels_ms))
            waiting.append((message.topic, message.queue_id))
            size_bytes += appended.size
            if size_bytes >= COMMIT_BYTES:
                _commit(store, waiting, counts)
                size_bytes = 0
    finally:
        _commit(store, waiting, counts)


def _commit(store: MessageStore, waiting: list[tuple[str, int]], counts: Counter[tuple[str, int]]) -> None:
    store.commit()
    counts.update(waiting)
    waiting.clear()
