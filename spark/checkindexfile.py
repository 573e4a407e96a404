"""One index file against itself: every entry links to the one that was its slot's newest before it, and the slots hold
the newest of all. Runs on executors, a file each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mqctl.store.indexfile import FIRST_ENTRY, HEADER, SLOT, Header
from mqctl.store.scan.indexes import ENTRY
from mqctl.store.scan.storage import storage
from spark.findings import DAMAGE, NOTE, Finding

CHUNK: Final = 1_000_000  # entries looked at at a time

# Slots that are wrong are told one by one up to here.
MOST_SLOTS: Final = 20


class IndexFile(NamedTuple):
    store: str
    path: str
    entries_at: int  # the byte at which entry 0 would be
    clean: bool

    def finding(self, position: int, what: str, *, harmless: bool = False) -> Finding:
        severity, more = (NOTE, ": the store is in use or was not closed") if harmless else (DAMAGE, "")
        return Finding(self.store, severity, f"index/{self.path.rpartition('/')[2]}", position, what + more)


def check_index_file(file: IndexFile) -> list[Finding]:
    data = storage(file.path).read(file.path, 0, HEADER.size)
    if len(data) < HEADER.size:
        return []  # deleted meanwhile
    header = Header(*HEADER.unpack(data))
    newest = np.zeros((file.entries_at - HEADER.size) // SLOT.size, np.int32)
    damage = _follow_links(file, header, newest)
    return [damage] if damage is not None else list(_compare_slots(file, header, newest))


def _follow_links(file: IndexFile, header: Header, newest: NDArray[np.int32]) -> Finding | None:
    """Leaves in `newest` the last entry of each slot; stops at the first that is wrong, since nothing behind it can be
    told right from wrong."""
    least = 0
    for first in range(FIRST_ENTRY, header.next_entry, CHUNK):
        count = min(CHUNK, header.next_entry - first)
        at = file.entries_at + first * ENTRY.itemsize
        data = storage(file.path).window(file.path, at, count * ENTRY.itemsize, whole=True)
        entries: NDArray[Any] = data[: len(data) // ENTRY.itemsize * ENTRY.itemsize].view(ENTRY)
        expected = _expected_links(entries, first, newest)
        places = entries["phys_offset"].astype(np.int64)
        goes_back = places < np.append(least, places[:-1])
        wrong = (entries["key_hash"] < 0) | (entries["seconds"] < 0) | goes_back | (entries["previous"] != expected)
        if wrong.any():
            number = int(wrong.argmax())
            what = _problem(entries[number], int(expected[number]), bool(goes_back[number]))
            return file.finding(at + number * ENTRY.itemsize, f"entry {first + number}: {what}")
        least = int(places[-1]) if len(places) else least
    return None


def _expected_links(entries: NDArray[Any], first: int, newest: NDArray[np.int32]) -> NDArray[np.int32]:
    """What each entry of the chunk should link to. `newest` holds what came before the chunk, and then it as well."""
    slots = entries["key_hash"].astype(np.int64) % len(newest)
    numbers = np.arange(first, first + len(entries), dtype=np.int32)
    order = np.argsort(slots, kind="stable")
    follows = slots[order][1:] == slots[order][:-1]
    expected = newest[slots]
    expected[order[1:][follows]] = numbers[order[:-1][follows]]
    newest[slots] = numbers  # of several with one slot the last stays
    return expected


def _problem(entry: Any, expected: int, goes_back: bool) -> str:
    if entry["key_hash"] < 0 or entry["seconds"] < 0:
        return "a negative number where there can be none"
    if goes_back:
        return f"goes back in the log, to {entry['phys_offset']}"
    return f"links to entry {entry['previous']}, the one before it in its slot is {expected}"


def _compare_slots(file: IndexFile, header: Header, newest: NDArray[np.int32]) -> Iterator[Finding]:
    used = int(np.count_nonzero(newest))
    if header.used_slots != used:
        what = f"the header says {header.used_slots} used slots, there are {used}"
        yield file.finding(0, what, harmless=not file.clean)
    size = len(newest) * SLOT.size
    slots = storage(file.path).window(file.path, HEADER.size, size, whole=True).view(">i4")
    wrong = np.flatnonzero(slots != newest[: len(slots)]).tolist()
    for slot in wrong[:MOST_SLOTS]:
        what = f"slot {slot} names entry {slots[slot]}, its newest is {newest[slot]}"
        yield file.finding(HEADER.size + slot * SLOT.size, what, harmless=not file.clean)
    if len(wrong) > MOST_SLOTS:
        what = f"{len(wrong) - MOST_SLOTS} more slots name another entry than their newest"
        yield file.finding(HEADER.size, what, harmless=not file.clean)
