"""Checking an index file entry by entry, and making its slots agree with its entries again.

After a kill the last entries may not be in their slots; after a loss of power any page of the last half minute
may be missing. Java deletes such a file and indexes again what recovery reads of the log. We keep every entry
up to the first one that cannot be right: the whole table of slots follows from the entries, and each entry
says what its slot held before it, so that a wrong one stands out.

It takes up to a second per million entries, and memory for one table of slots (20 MB) while it runs. Most often
that is not needed: a checkpoint says how many entries are known to be on disk, slots included, and after a mere
kill only some of the slots are missing for the entries behind those.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mqctl.store.indexfile import (
    ENTRY,
    FIRST_ENTRY,
    SLOT,
    Entry,
    Header,
    IndexFile,
    entry_timestamp,
    near_slots,
)

_TABLE_CHUNK: Final = 16 * 1024 * SLOT.size
_PAGE: Final = 4096


def repair(file: IndexFile, below: int | None = None, sound: int = 0) -> int:
    """Cuts the file before its first unsound entry, or its first one for a message at or beyond the offset
    `below`, and rewrites the slots that are wrong. Returns how many entries are left. A file of which none
    would be left stays as it is, for a human to look at. The first `sound` entries are known to be right, and
    so were the slots when there were no others.

    Raises StoreError when the disk fails; then the file must be repaired again before it is used.
    """
    if below is None and 0 < sound <= file.entry_count and _complete(file, sound):
        return file.entry_count
    table = array("i", bytes(SLOT.size * file.geometry.hash_slots))
    left, last = _scan(file, table, below)
    if last is None and not file.header.is_empty:
        return 0
    if last is not None and (left < file.entry_count or last[1] != file.header.end_phys_offset):
        used_slots = len(table) - table.count(0)
        file.write_header(_header_after(file.header, left, last, used_slots))
    _write_differences(file, table)
    return left


def _complete(file: IndexFile, sound: int) -> bool:
    """Enters what is behind the first `sound` entries into the slots. False, and nothing is changed, if any of
    these or any slot is not as a mere kill leaves it."""
    newest: dict[int, int] = {}
    hash_slots = file.geometry.hash_slots
    number, least = sound + FIRST_ENTRY, 0
    for key_hash, phys_offset, seconds, previous in file.entries(first_entry=number):
        slot = key_hash % hash_slots
        before = newest.get(slot)
        if not (least <= phys_offset > 0 and key_hash >= 0 <= seconds):
            return False
        if previous != before and (before is not None or not _is_in_slot(file, previous, sound, slot)):
            return False
        newest[slot] = number
        least = phys_offset
        number += 1
    if (newest and _may_be_torn(file, number - 1)) or max(map(max, _slots(file))) >= number:
        return False
    for group in near_slots(newest):
        file.set_newest(group, newest)
    return True


def _is_in_slot(file: IndexFile, number: int, sound: int, slot: int) -> bool:
    """Whether the first new entry of a slot may follow this one: one of the sound, or none at all."""
    if not 0 <= number <= sound:
        return False
    if number == 0:
        return True
    (key_hash, *_) = ENTRY.unpack(file.read(file.geometry.entry_at(number), ENTRY.size))
    return bool(key_hash % file.geometry.hash_slots == slot)


def _may_be_torn(file: IndexFile, last: int) -> bool:
    """Whether the last entry lies across two pages, of which the second may be missing without a trace."""
    begin = file.geometry.entry_at(last)
    return begin // _PAGE != (begin + ENTRY.size - 1) // _PAGE


def _slots(file: IndexFile) -> Iterator[array[int]]:
    end = file.geometry.entry_at(0)
    for position in range(file.geometry.slot_at(0), end, _TABLE_CHUNK):
        chunk = array("i", file.read(position, min(_TABLE_CHUNK, end - position)))
        if sys.byteorder == "little":
            chunk.byteswap()
        yield chunk


def _scan(file: IndexFile, table: array[int], below: int | None) -> tuple[int, Entry | None]:
    """Fills the table; returns how many entries are sound, and the last of them."""
    hash_slots = file.geometry.hash_slots
    limit = sys.maxsize if below is None else below
    least = file.header.begin_phys_offset
    number, last = FIRST_ENTRY, None
    for entry in file.entries():
        key_hash, phys_offset, seconds, previous = entry
        slot = key_hash % hash_slots
        if not (least <= phys_offset < limit and key_hash >= 0 <= seconds and previous == table[slot]):
            break
        table[slot] = number
        least, last = phys_offset, entry
        number += 1
    return number - FIRST_ENTRY, last


def _header_after(header: Header, left: int, last: Entry, used_slots: int) -> Header:
    _, phys_offset, seconds, _ = last
    return replace(
        header,
        end_phys_offset=phys_offset,
        end_timestamp=entry_timestamp(header, left, seconds),
        used_slots=used_slots,
        next_entry=left + FIRST_ENTRY,
    )


def _write_differences(file: IndexFile, table: array[int]) -> None:
    """Only where the file differs: a sound file is left as it is."""
    if sys.byteorder == "little":
        table.byteswap()
    wanted = memoryview(table).cast("B")
    for start in range(0, len(wanted), _TABLE_CHUNK):
        chunk = wanted[start : start + _TABLE_CHUNK]
        position = file.geometry.slot_at(start // SLOT.size)
        if file.read(position, len(chunk)) != chunk:
            file.write(position, bytes(chunk))
