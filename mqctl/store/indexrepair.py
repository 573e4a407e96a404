"""Checking an index file entry by entry, and making its slots agree with its entries again.

After a kill the last entries may not be in their slots; after a loss of power any page of the last half minute
may be missing. Java deletes such a file and indexes again what recovery reads of the log. We keep every entry
up to the first one that cannot be right: the whole table of slots follows from the entries, and each entry
says what its slot held before it, so that a wrong one stands out.

It takes up to a second per million entries, and memory for one table of slots (20 MB) while it runs.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import replace
from typing import Final

from mqctl.store.indexfile import FIRST_ENTRY, SLOT, Entry, Header, IndexFile, entry_timestamp

_TABLE_CHUNK: Final = 16 * 1024 * SLOT.size


def repair(file: IndexFile, below: int | None = None) -> int:
    """Cuts the file before its first unsound entry, or its first one for a message at or beyond the offset
    `below`, and rewrites the slots that are wrong. Returns how many entries are left. A file of which none
    would be left stays as it is, for a human to look at.

    Raises StoreError when the disk fails; then the file must be repaired again before it is used.
    """
    table = array("i", bytes(SLOT.size * file.geometry.hash_slots))
    left, last = _scan(file, table, below)
    if last is None and not file.header.is_empty:
        return 0
    if last is not None and (left < file.entry_count or last[1] != file.header.end_phys_offset):
        used_slots = len(table) - table.count(0)
        file.write_header(_header_after(file.header, left, last, used_slots))
    _write_differences(file, table)
    return left


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
