"""Stores whose tail was torn: pages that never reached the disk, bytes that came back as others.

Hundreds of variants of one small store that was not closed, opened in this process. What lies before the damage
stays, nothing appears that was never written, and the second opening finds what the first one made of it.
MQCTL_CRASH_SEED repeats the damage of an earlier run, which prints its seed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.record import Record
from tests.unit.store.stores import drop_without_close, message, new_store, opened

SEED: Final = int(os.environ.get("MQCTL_CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
VARIANTS: Final = 80

SIZES: Final[dict[str, Any]] = {"file_size": 16 * 1024, "queue_entries": 20}
# Where damage begins: in the last bytes of the data, which are those of more than one file.
TAIL: Final = 20_000
PAGE: Final = 4096
QUEUES: Final = [("t", 0), ("t", 1), ("other", 0)]


class Place(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int


Messages = dict[Place, Record]


@dataclass(frozen=True)
class Original:
    """A store as a kill left it, and all that is in it."""

    root: Path
    messages: Messages
    end: int

    def intact(self, before: int) -> Messages:
        return {place: each for place, each in self.messages.items() if each.phys_offset + each.size <= before}


def read(root: Path) -> tuple[Messages, int]:
    """All that consumers can get, and where the log ends. Where recovery lost a message, because its record says that
    it is of another queue, the next one stands in its place."""
    with opened(root, **SIZES) as store:
        found: Messages = {}
        for (topic, queue_id), queue in store.queues.items():
            for queue_offset in range(queue.min_offset, queue.max_offset):
                entry = queue.entry(queue_offset)
                assert entry is not None, f"{topic}-{queue_id}: no entry at {queue_offset}"
                data = store.log.read(entry[0], entry[1])
                assert data is not None, f"{topic}-{queue_id}: no record for the entry at {queue_offset}"
                each = record.parse(data, 0, check_crc=True)
                assert each.queue_offset >= queue_offset
                if each.queue_offset == queue_offset:
                    found[Place(topic, queue_id, queue_offset)] = each
        return found, store.log.end


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    root = tmp_path_factory.mktemp("torn") / "store"
    rng = random.Random(7)  # the store is always the same; what happens to it is not
    store = new_store(root, **SIZES)
    for number in range(150):
        topic, queue_id = rng.choice(QUEUES)
        body = b"%d:" % number + rng.randbytes(rng.choice([0, 20, 200, 1000]))
        store.put(message(body, topic, queue_id, tags=rng.choice(["", "A", "TagB10"])))
        if rng.random() < 0.3:
            store.commit()
        if rng.random() < 0.05:
            store.flush_queues()
    store.commit()
    end = store.log.end
    drop_without_close(store)
    store._lock.release()
    copy = shutil.copytree(root, root.parent / "copy")
    messages, _ = read(copy)
    assert len(messages) == 150
    assert end > 2 * TAIL
    return Original(root, messages, end)


@pytest.fixture
def rng() -> random.Random:
    print(f"MQCTL_CRASH_SEED={SEED}")
    return random.Random(SEED)


# -- damage ---------------------------------------------------------------------------------------------------

# (where it begins, where it ends) in the log
Damage = tuple[int, int]


def overwrite(root: Path, at: int, data: bytes) -> None:
    """Writes into the log, over the ends of its files."""
    size = SIZES["file_size"]
    while data:
        path = root / "commitlog" / f"{at - at % size:020d}"
        piece = data[: size - at % size]
        with path.open("r+b") as file:
            file.seek(at % size)
            file.write(piece)
        at, data = at + len(piece), data[len(piece) :]


def lose_the_end(root: Path, end: int, rng: random.Random) -> Damage:
    """Nothing behind some byte was ever written."""
    at = rng.randrange(end - TAIL, end)
    overwrite(root, at, bytes(end - at))
    return at, end


def lose_a_page(root: Path, end: int, rng: random.Random) -> Damage:
    """Pages reach a disk in any order, so one in the middle may be missing."""
    at = rng.randrange(end - TAIL, end) // PAGE * PAGE
    overwrite(root, at, bytes(min(PAGE, end - at)))
    return at, min(at + PAGE, end)


def scribble(root: Path, end: int, rng: random.Random) -> Damage:
    """Any bytes anywhere."""
    at = rng.randrange(end - TAIL, end)
    length = min(rng.choice([1, 2, 8, 100, 3000]), end - at)
    overwrite(root, at, rng.randbytes(length))
    return at, at + length


def scribble_and_lose_queues(root: Path, end: int, rng: random.Random) -> Damage:
    """The queues are damaged as well; they can be had from the log alone."""
    for path in sorted((root / "consumequeue").rglob("0*")):
        if path.is_file() and rng.random() < 0.5:
            at = rng.randrange(path.stat().st_size)
            with path.open("r+b") as file:
                file.seek(at)
                file.write(rng.choice([bytes(60), rng.randbytes(60)])[: path.stat().st_size - at])
    return scribble(root, end, rng)


def variants(
    original: Original, tmp_path: Path, rng: random.Random, damage: Callable[[Path, int, random.Random], Damage]
) -> Iterator[tuple[Path, Damage]]:
    for _ in range(VARIANTS):
        copy = tmp_path / "copy"
        shutil.copytree(original.root, copy)
        yield copy, damage(copy, original.end, rng)
        shutil.rmtree(copy)


# -- tests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [lose_the_end, lose_a_page, scribble, scribble_and_lose_queues])
def test_a_torn_tail(
    original: Original,
    tmp_path: Path,
    rng: random.Random,
    damage: Callable[[Path, int, random.Random], Damage],
) -> None:
    kept = 0
    for number, (copy, (begin, end)) in enumerate(variants(original, tmp_path, rng, damage)):
        where = f"variant {number}, damaged from {begin} to {end}"
        try:
            found, log_end = read(copy)
        except StoreError as refusal:
            assert refusal.message, where
            continue
        before = original.intact(begin)
        lost = [place for place in before if found.get(place) != before[place]]
        assert not lost, f"{where}: lost although before it: {lost}"
        for place, each in found.items():
            # Only bodies have a checksum: another field of the record that was hit may hold anything.
            hit = each.phys_offset < end and each.phys_offset + each.size > begin
            assert hit or each == original.messages.get(place), f"{where}: invented {place}"
        assert log_end <= original.end
        assert read(copy) == (found, log_end), f"{where}: opened again it is another store"
        kept += 1
    assert kept > VARIANTS // 2
