"""Where records begin: from one to the next by their sizes, or from anywhere by looking for one.

Nothing but the size of a record says where the next one is, so this is the one loop over records. Many logs hold long
runs of records of one size, though: such a run is found by comparing all its sizes with the first at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final

import numpy as np

from mqctl.store import record
from mqctl.store.scan.records import HEADS, MIN_RECORD, Places, gather
from mqctl.store.scan.storage import Bytes

_SIZE: Final = Struct(">i")
_MAGICS: Final = re.compile(b"\xda\xa3\x20[\xa7\xab]")
_MAGIC_AT: Final = _SIZE.size

# A run shorter than this costs more to compare than to walk.
_SHORT_RUN: Final = 16
# How many records are walked before the next try.
_STEPS: Final = 2048
_LONG_RUN: Final = 1 << 14


def places(data: Bytes, start: int, stop: int) -> tuple[Places, int]:
    """Where records begin in [start, stop), if one begins at `start`, and where the next one would. Ends early before
    one that does not lie wholly in the data, or has a size that none has. Only sizes are looked at."""
    found: list[Places] = []
    place = start
    while place < stop:
        run = _equal_run(data, place, stop)
        if len(run) < _SHORT_RUN:
            run, following = _walk(data, place, stop)
        else:
            following = int(run[-1] + (run[1] - run[0]))
        if not len(run):
            break
        found.append(run)
        place = following
    return np.concatenate(found) if found else np.empty(0, np.int64), place


def _equal_run(data: Bytes, place: int, stop: int) -> Places:
    """The places of records that all have the size of the one here."""
    size = _size(data, place)
    count = min(_LONG_RUN, (len(data) - place) // size) if size >= MIN_RECORD else 0
    if count < _SHORT_RUN:
        return np.empty(0, np.int64)
    for wanted in (_SHORT_RUN, count):
        sizes = np.ndarray((wanted,), ">i4", data, place, (size,))
        other = sizes != size
        if other.any():
            count = int(other.argmax())
            break
    run = place + size * np.arange(count, dtype=np.int64)
    return run[: int(np.searchsorted(run, stop))]


def _walk(data: Bytes, place: int, stop: int) -> tuple[Places, int]:
    found: list[int] = []
    append, size_at, view = found.append, _SIZE.unpack_from, data.data
    stop = min(stop, len(data) - MIN_RECORD + 1)
    smallest, size = MIN_RECORD, MIN_RECORD  # names of the function are found faster than those of the module
    for _ in range(_STEPS):
        if place >= stop:
            break
        (size,) = size_at(view, place)
        if size < smallest:
            break
        append(place)
        place += size
    if place > len(data):
        place = found.pop()
    return np.array(found, np.int64), place


def _size(data: Bytes, place: int) -> int:
    return int(_SIZE.unpack_from(data.data, place)[0]) if place + _SIZE.size <= len(data) else 0


def candidates(data: Bytes, base: int, stop: int) -> Iterator[tuple[int, int]]:
    """(place, size) of what begins before `stop` like a record that was written for the place it is at. So bytes in a
    body are not taken for one, except a copy of a record that somebody has put at the very place the copy names."""
    for magic in _MAGICS.finditer(data.data, _MAGIC_AT, min(stop + record.SIZE_AND_MAGIC.size - 1, len(data))):
        place = magic.start() - _MAGIC_AT
        if place + MIN_RECORD <= len(data):
            head = gather(data, np.array([place]), HEADS[0])[0]
            if head["phys_offset"] == base + place and head["size"] >= MIN_RECORD:
                yield place, int(head["size"])


def is_blank(data: Bytes, place: int, left: int) -> bool:
    """Whether the rest of the file, `left` bytes, was given up here."""
    if place + record.BLANK.size > len(data):
        return left < record.BLANK.size
    return record.BLANK.unpack_from(data.data, place) == (left, record.MAGIC_BLANK)
