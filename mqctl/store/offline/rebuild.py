"""Consume queues and index made anew from the log.

New ones grow in folders of their own and take the place of the old ones at the end; those go to `damaged`. A queue
of which the log has no record stays as it is: it alone knows which offset its next message gets.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.files import FileHandles
from mqctl.store.index import KeyIndex, indexed_keys
from mqctl.store.offline.changing import Aside
from mqctl.store.offline.check_config import ParseJson, existing_topics
from mqctl.store.offline.entries import has_entry, place_problem, tags_code
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.logscan import STEP, OnProgress, RawRecord
from mqctl.store.offline.order import Kind, QueueOrder, Step
from mqctl.store.offline.sizes import index_geometry, queue_file_size
from mqctl.store.record import SYS_TRANSACTION_MASK, SYS_TRANSACTION_ROLLBACK
from mqctl.store.schedule import DEFAULT_LEVELS_MS, waiting_code

OPEN_FILES: Final = 256
KEYS_AT_ONCE: Final = 20_000


@dataclass(slots=True)
class Rebuilt:
    queues: set[tuple[str, int]] = field(default_factory=set)
    entries: int = 0
    lost: int = 0  # entries that stand for messages that are not in the log
    keys: int = 0


def rebuild(
    store: StoreFolder,
    wants_queue: Callable[[str, int], bool],
    *,
    index: bool,
    on_progress: OnProgress,
) -> Rebuilt:
    """Inside `changing`. Damage in the log is passed over, and what was there counts as lost."""
    result = Rebuilt()
    queues = _Queues(store, wants_queue, result)
    keys = _Keys(store, result) if index else None
    scan = store.scan(lambda start, end, what: None)
    begin = next_step = scan.place
    for raw in scan:
        queues.add(raw)
        if keys is not None:
            keys.add(raw)
        if scan.place >= next_step:
            on_progress(scan.place - begin, store.log.end - begin)
            next_step = scan.place + STEP
    aside = Aside(store.root)
    queues.finish(aside)
    if keys is not None:
        keys.finish(aside)
    return result


def known_topics(store: StoreFolder, parse_json: ParseJson) -> Callable[[str], bool]:
    """Tells whether a topic exists: its records may be in the log long after it was deleted. One that has queues
    does, and so does one in topics.json; where that file cannot be read, every topic."""
    listed = existing_topics(store, parse_json)
    with_queues = {queue.topic for queue in store.queues}
    return lambda topic: listed is None or topic in listed or topic in with_queues


def _fresh(path: Path) -> Path:
    """A folder for what is new; what an earlier try left there was never in use."""
    if path.exists():
        shutil.rmtree(path)
    return path


class _Queues:
    def __init__(self, store: StoreFolder, wanted: Callable[[str, int], bool], result: Rebuilt) -> None:
        self._wanted = wanted
        self._result = result
        self._root = store.root / "consumequeue"
        self._new = _fresh(store.root / "consumequeue.new")
        self._file_size = queue_file_size(store)
        self._handles = FileHandles(OPEN_FILES)
        self._queues: dict[tuple[bytes, int], _Queue | None] = {}

    def add(self, raw: RawRecord) -> None:
        if not has_entry(raw.fields[7]):
            return
        key = (raw.topic, raw.fields[3])
        if key not in self._queues:
            self._queues[key] = self._make(*key)
        queue = self._queues[key]
        if queue is not None:
            queue.add(raw)

    def _make(self, topic: bytes, queue_id: int) -> _Queue | None:
        name = topic.decode(errors="replace")
        if place_problem(topic, queue_id) is not None or not self._wanted(name, queue_id):
            return None
        return _Queue(lambda: ConsumeQueue(self._new, name, queue_id, self._file_size, self._handles))

    def finish(self, aside: Aside) -> None:
        built = [queue for queue in self._queues.values() if queue is not None]
        for queue in built:
            queue.finish()
            self._result.entries += queue.entries
            self._result.lost += queue.lost
        self._handles.close()
        for queue in built:
            place = Path(queue.topic) / str(queue.queue_id)
            if (self._root / place).exists():
                aside.move(self._root / place)
            if (self._new / place).exists():
                (self._root / place).parent.mkdir(parents=True, exist_ok=True)
                (self._new / place).rename(self._root / place)
            self._result.queues.add((queue.topic, queue.queue_id))
        _fresh(self._new)


class _Queue:
    """One queue that grows with its records."""

    def __init__(self, make: Callable[[], ConsumeQueue]) -> None:
        self._make = make
        self._queue = make()
        self._order: QueueOrder[tuple[int, int, int]] = QueueOrder()
        self.topic, self.queue_id = self._queue.topic, self._queue.queue_id
        self.entries = self.lost = 0

    def add(self, raw: RawRecord) -> None:
        fields = raw.fields
        code = waiting_code(self.topic, raw.properties.decode(errors="replace"), fields[10], DEFAULT_LEVELS_MS)
        entry = fields[6], fields[0], tags_code(raw.properties) if code is None else code
        for step in self._order.take(fields[5], entry):
            self._step(step)

    def _step(self, step: Step[tuple[int, int, int]]) -> None:
        if step.kind is Kind.RESTART:
            self._queue.destroy()
            self._queue = self._make()
            self.entries = self.lost = 0
        queue = self._queue
        if step.kind is Kind.WRONG or step.queue_offset < queue.max_offset:
            return  # a place is given to the first who has it, as recovery does
        if queue.max_offset == queue.min_offset:
            queue.start_at(step.queue_offset)
        self.lost += step.queue_offset - queue.max_offset
        queue.skip_to(step.queue_offset, *step.item)
        queue.append(*step.item)
        self.entries += 1
        if queue.wants_flush:
            queue.flush()

    def finish(self) -> None:
        for step in self._order.finish():
            self._step(step)
        self._queue.flush()


class _Keys:
    def __init__(self, store: StoreFolder, result: Rebuilt) -> None:
        self._result = result
        self._place = store.root / "index"
        self._new = _fresh(store.root / "index.new")
        self._index = KeyIndex(self._new, index_geometry(store))

    def add(self, raw: RawRecord) -> None:
        if raw.fields[7] & SYS_TRANSACTION_MASK == SYS_TRANSACTION_ROLLBACK:
            return
        keys = indexed_keys(raw.properties.decode(errors="replace"))
        self._index.add(raw.fields[6], raw.fields[10], raw.topic.decode(errors="replace"), keys)
        self._result.keys += len(keys)
        if self._index.backlog >= KEYS_AT_ONCE:
            self._index.drain()

    def finish(self, aside: Aside) -> None:
        self._index.close()
        self._new.mkdir(exist_ok=True)  # no message had a key
        if self._place.exists():
            aside.move(self._place)
        self._new.rename(self._place)
