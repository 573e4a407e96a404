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

from mqctl.store.indexfile import ENTRY, FIRST_ENTRY, SLOT, Entry, IndexFile, near_slots, seconds_since

_PREVIOUS_AT = ENTRY.size - SLOT.size


class Tail:
    """`header` is what the file's header will be. An entry that is the first of its slot in here has no
    link to what the file has in that slot; `merge` finds it."""

    def __init__(self, file: IndexFile) -> None:
        self.file = file
        self.header = replace(file.header)
        self.is_written = False
        self._first = file.header.next_entry
        self._entries = bytearray()
        self._newest: dict[int, int] = {}

    def __len__(self) -> int:
        return self.header.next_entry - self._first

    @property
    def room(self) -> int:
        """How many entries the file can take. None any more when these are written and only slots are missing."""
        return 0 if self.is_written else self.file.geometry.max_entries - self.header.next_entry

    # -- adding -------------------------------------------------------------------------------------

    def append(self, hashes: Sequence[int], phys_offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        """One entry for each; at least one, and no more than there is room for."""
        if self.header.is_empty:
            self._append(hashes[:1], phys_offsets[:1], timestamps[:1])
            self.header.begin_phys_offset, self.header.begin_timestamp = phys_offsets[0], timestamps[0]
            hashes, phys_offsets, timestamps = hashes[1:], phys_offsets[1:], timestamps[1:]
        if hashes:
            self._append(hashes, phys_offsets, timestamps)

    def _append(self, hashes: Sequence[int], phys_offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        header, newest, hash_slots = self.header, self._newest, self.file.geometry.hash_slots
        seconds = {timestamp: seconds_since(header.begin_timestamp, timestamp) for timestamp in set(timestamps)}
        packed = []
        number = header.next_entry
        for key_hash, phys_offset, timestamp in zip(hashes, phys_offsets, timestamps, strict=True):
            slot = key_hash % hash_slots
            packed.append(ENTRY.pack(key_hash, phys_offset, seconds[timestamp], newest.get(slot, 0)))
            newest[slot] = number
            number += 1
        self._entries += b"".join(packed)
        header.next_entry = number
        header.end_phys_offset, header.end_timestamp = phys_offsets[-1], timestamps[-1]

    # -- looking up ---------------------------------------------------------------------------------

    def chain(self, slot: int) -> Iterator[tuple[int, Entry]]:
        """All entries of a slot, those in the file as well, newest first."""
        number = self._newest.get(slot, 0)
        while number >= self._first:
            entry = ENTRY.unpack_from(self._entries, self._at(number))
            yield number, entry
            number = entry[3]
        if number == 0:
            number = self.file.newest(slot)
        # Once the slot is linked the file names an entry of this tail, which we have seen.
        if FIRST_ENTRY <= number < self._first:
            yield from self.file.chain(number)

    def _at(self, number: int) -> int:
        return ENTRY.size * (number - self._first)

    # -- writing ------------------------------------------------------------------------------------

    def merge(self) -> Iterator[int]:
        """Brings everything to the file, a piece at each step, and says how many slots that piece had. After
        StoreError nothing is lost: a new merge does again what is not known to be done."""
        groups = near_slots(self._newest)
        if not self.is_written:
            used_slots = self.file.header.used_slots
            for group in groups:
                used_slots += self._resolve(group)
                yield len(group)
            self._write(used_slots)
        for group in groups:
            self.file.set_newest(group, self._newest)
            yield len(group)

    def _resolve(self, slots: list[int]) -> int:
        """Links the first entry of each slot to what the file has there. Returns how many slots were empty."""
        empty = 0
        for slot, number in self.file.newest_of(slots):
            if number:
                SLOT.pack_into(self._entries, self._at(self._oldest(slot)) + _PREVIOUS_AT, number)
            else:
                empty += 1
        return empty

    def _oldest(self, slot: int) -> int:
        """The first entry of a slot in here; nearly always it is the only one."""
        number = self._newest[slot]
        while True:
            (previous,) = SLOT.unpack_from(self._entries, self._at(number) + _PREVIOUS_AT)
            if previous < self._first:
                return number
            number = previous

    def _write(self, used_slots: int) -> None:
        self.file.write(self.file.geometry.entry_at(self._first), self._entries)
        self.file.write_header(replace(self.header, used_slots=used_slots))
        self.is_written = True
