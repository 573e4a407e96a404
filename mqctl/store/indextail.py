"""The newest entries of an index file, kept in memory until there are enough of them to write at once.

Entries go to the end of a file, but each also changes a slot, and slots lie scattered over 20 MB. The table
is not held in memory: that is half of what the whole broker may take. Nor is it mapped: mapped pages count as
ours too, and a full disk would be a SIGBUS. So slots are read and written, and what counts is how many of them
share a system call. With hashes spread at random, writing 16,384 keys at once takes per key a little more than
a third of the time that 1,024 or 64 at once take, and 3 MB of memory until then. The unique keys of one
producer only differ in their last digits; their slots lie close together, and any batch will do.

The entries are a journal: the slots can be rebuilt from them. So the order of writing is entries, header,
slots. What a crash leaves between two of these steps `indexrepair` puts right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqctl.store.indexfile import FIRST_ENTRY, MAX_SECONDS, SLOT, SLOTS_PER_CALL, Entry, IndexFile
from mqctl.store.keyhash import key_hashes

# `indexfile.ENTRY` for numpy.
_ENTRY: Final = np.dtype([("hash", ">i4"), ("phys_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_SLOT: Final = np.dtype(">i4")

Ints = NDArray[np.int64]


class Tail:
    """`header` is what the file's header will be. Entries have no links before `merge` finds them."""

    def __init__(self, file: IndexFile, capacity: int) -> None:
        self.file = file
        self.header = replace(file.header)
        self.is_written = False
        self._first = file.header.next_entry
        self._entries = np.zeros(min(capacity, file.geometry.max_entries - self._first), _ENTRY)

    def __len__(self) -> int:
        return self.header.next_entry - self._first

    @property
    def room(self) -> int:
        """How many entries more it takes. None any more when these are written and only slots are missing."""
        return 0 if self.is_written else len(self._entries) - len(self)

    @property
    def entries_before(self) -> int:
        """How many entries the file had before these."""
        return self._first - FIRST_ENTRY

    @property
    def begin_phys_offset(self) -> int:
        """The log offset of the first of these; there must be one."""
        return int(self._entries["phys_offset"][0])

    # -- adding -------------------------------------------------------------------------------------

    def append(self, messages: Sequence[tuple[int, int, str, Sequence[str]]]) -> int:
        """Files (log offset, store time, topic, keys) of messages, an entry per key; returns how many. There is
        at least one and no more than there is room for."""
        counts = [len(message[3]) for message in messages]
        topics = [message[2] for message in messages for _ in message[3]]
        hashes = key_hashes(topics, [key for message in messages for key in message[3]])
        phys_offsets = np.repeat(np.array([message[0] for message in messages], np.int64), counts)
        timestamps = np.repeat(np.array([message[1] for message in messages], np.int64), counts)
        self._append(hashes, phys_offsets, timestamps)
        return len(hashes)

    def _append(self, hashes: NDArray[np.int32], phys_offsets: Ints, timestamps: Ints) -> None:
        header = self.header
        added = self._entries[len(self) : len(self) + len(hashes)]
        added["hash"] = hashes
        added["phys_offset"] = phys_offsets
        if header.is_empty:
            # The seconds of a file's first entry count from the end of the file before.
            before, header.begin_timestamp = header.begin_timestamp, int(timestamps[0])
            header.begin_phys_offset = int(phys_offsets[0])
            added["seconds"] = _seconds_since(header.begin_timestamp, timestamps)
            added["seconds"][0] = _seconds_since(before, timestamps[:1])[0]
        else:
            added["seconds"] = _seconds_since(header.begin_timestamp, timestamps)
        header.next_entry += len(hashes)
        header.end_phys_offset, header.end_timestamp = int(phys_offsets[-1]), int(timestamps[-1])

    # -- looking up ---------------------------------------------------------------------------------

    def _slots(self) -> Ints:
        return self._entries["hash"][: len(self)].astype(np.int64) % self.file.geometry.hash_slots

    def chain(self, slot: int) -> Iterator[tuple[int, Entry]]:
        """All entries of a slot, those in the file as well, newest first."""
        places = np.flatnonzero(self._slots() == slot)[::-1].tolist()
        for place in places:
            yield self._first + place, self._entries[place].item()
        is_linked = self.is_written and places
        number = int(self._entries["previous"][places[-1]]) if is_linked else self.file.newest(slot)
        if FIRST_ENTRY <= number < self._first:
            yield from self.file.chain(number)

    # -- writing ------------------------------------------------------------------------------------

    def merge(self) -> Iterator[int]:
        """Brings everything to the file, a piece at each step, and says how many slots that piece had. After
        StoreError nothing is lost: a new merge does again what is not known to be done."""
        slots = self._slots()
        order = np.argsort(slots, kind="stable")
        in_order, numbers = slots[order], self._first + order
        starts = np.flatnonzero(np.diff(in_order, prepend=-1))  # where the next slot begins
        used, newest = in_order[starts], numbers[np.append(starts[1:], len(order)) - 1]
        pieces = [*np.flatnonzero(np.diff(used // SLOTS_PER_CALL, prepend=-1)).tolist(), len(used)]
        spans = [slice(begin, end) for begin, end in pairwise(pieces)]
        if not self.is_written:
            previous = np.zeros(len(order), np.int64)
            previous[order[1:]] = numbers[:-1]
            used_slots = self.file.header.used_slots
            for span in spans:
                before = self._in_file(used[span])
                previous[order[starts[span]]] = before
                used_slots += int(np.count_nonzero(before == 0))
                yield len(before)
            self._entries["previous"][: len(order)] = previous
            self._write(used_slots)
        for span in spans:
            self._set(used[span], newest[span])
            yield span.stop - span.start

    def _in_file(self, slots: Ints) -> Ints:
        """The newest entry of each of these slots, which ascend and lie close together; 0 for none. The table
        may be damaged."""
        numbers = self._read(slots)[slots - slots[0]].astype(np.int64)
        return np.where((numbers >= FIRST_ENTRY) & (numbers < self._first), numbers, 0)

    def _set(self, slots: Ints, numbers: Ints) -> None:
        table = self._read(slots).copy()
        table[slots - slots[0]] = numbers
        self.file.write(self.file.geometry.slot_at(int(slots[0])), table.tobytes())

    def _read(self, slots: Ints) -> NDArray[np.int32]:
        first, last = int(slots[0]), int(slots[-1])
        return np.frombuffer(self.file.read(self.file.geometry.slot_at(first), SLOT.size * (last - first + 1)), _SLOT)

    def _write(self, used_slots: int) -> None:
        self.file.write(self.file.geometry.entry_at(self._first), self._entries[: len(self)].tobytes())
        self.file.write_header(replace(self.header, used_slots=used_slots))
        self.is_written = True


def _seconds_since(begin_timestamp: int, timestamps: Ints) -> Ints:
    """An entry's time as the file keeps it; 0 while there is no begin."""
    if begin_timestamp <= 0:
        return np.zeros(len(timestamps), np.int64)
    return np.clip((timestamps - begin_timestamp) // 1000, 0, MAX_SECONDS)
