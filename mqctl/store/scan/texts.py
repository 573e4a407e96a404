"""Texts of many records: slices of one piece of memory become an Arrow array without a step per record."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mqctl.store.properties import NAME_VALUE_SEPARATOR
from mqctl.store.scan.records import Places, gather
from mqctl.store.scan.storage import Bytes

_EQUALS: Final = NAME_VALUE_SEPARATOR.encode()
_PAIR_END: Final = 2
_NAME_END: Final = 1


def slices(data: Bytes, starts: Places, sizes: Places, rows: Places | None = None, count: int = 0) -> pa.BinaryArray:
    """The slices, in this order, which must be that of their places. With `rows`, an array of `count` values in which
    the slices take these places and nothing the others.

    Arrow's arrays of bytes have one offset for the end of a value and the beginning of the next. So the whole piece is
    made an array whose odd values are the gaps, without copying it, and Arrow takes the even ones out.
    """
    if rows is not None:
        indices = np.full(count, -1, np.int64)
        indices[rows] = np.arange(0, 2 * len(starts), 2)
        taken = pa.array(indices, mask=indices < 0)
    else:
        taken = pa.array(np.arange(0, 2 * len(starts), 2))
    if not len(starts):
        return pa.nulls(len(taken), pa.binary())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + sizes
    gaps_too = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data))]
    )
    return gaps_too.take(taken)


def as_text(array: pa.BinaryArray) -> pa.StringArray:
    """Bytes that are not UTF-8 are no damage: Java reads them with replacement characters too."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode(errors="replace") for value in array.to_pylist()]
        return pa.array(texts, pa.string())


def by_value(values: pa.Array, convert: Any) -> pa.Array:
    """`convert` of each value, called once per different value: there are few hosts and topics."""
    encoded = values.dictionary_encode()
    return pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


class PropertyTexts:
    """The property texts of many records: name 0x01 value 0x02 name ... . As `properties.parse_properties` reads them:
    a pair without a name or a value does not count, and the last of a name wins."""

    def __init__(self, data: Bytes, starts: Places, sizes: Places) -> None:
        # Each with the byte before it, which becomes a separator. So every pair, the first one too, follows one.
        own = slices(data, starts - 1, sizes + 1)
        self._count = len(own)
        self._begins = np.frombuffer(own.buffers()[1], np.int32)[own.offset :][: self._count].astype(np.int64)
        text = np.frombuffer(own.buffers()[2], np.uint8)[: int(starts.size and (sizes + 1).sum())]
        self._text = np.append(text, np.zeros(_LONGEST_NAME, np.uint8))  # a gather may look so far behind a place
        self._text[self._begins] = _PAIR_END

    @cached_property
    def _pairs(self) -> Places:
        return np.flatnonzero(self._text == _PAIR_END)

    @cached_property
    def _ends(self) -> Places:
        return np.append(self._pairs[1:], len(self._text) - _LONGEST_NAME)

    def value(self, name: str) -> pa.StringArray:
        mark = name.encode() + _EQUALS
        pairs = np.flatnonzero(gather(self._text, self._pairs + 1, f"S{len(mark)}") == mark)
        starts = self._pairs[pairs] + 1 + len(mark)
        sizes = self._ends[pairs] - starts
        rows = np.searchsorted(self._begins, starts, "right") - 1
        keep = sizes > 0
        starts, sizes, rows = starts[keep], sizes[keep], rows[keep]
        last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        return as_text(slices(self._text, starts[last], sizes[last], rows[last], self._count))

    def maps(self) -> pa.MapArray:
        starts = self._pairs + 1
        equals = np.flatnonzero(self._text == _NAME_END)
        following = np.searchsorted(equals, starts)
        at = np.append(equals, len(self._text))[following]
        # At least one character on both sides.
        keep = (at > starts) & (at + 1 < self._ends)
        starts, at, ends = starts[keep], at[keep], self._ends[keep]
        rows = np.searchsorted(self._begins, starts, "right") - 1
        names = as_text(slices(self._text, starts, at - starts))
        once = _last_of_each(rows, names)
        values = as_text(slices(self._text, at[once] + 1, ends[once] - at[once] - 1))
        offsets = np.searchsorted(rows[once], np.arange(self._count + 1)).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), names.take(pa.array(once)), values)


_LONGEST_NAME: Final = 64


def _last_of_each(rows: Places, names: pa.StringArray) -> NDArray[np.intp]:
    """Which pairs to keep so that no row has a name twice."""
    codes = names.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if len(codes) and codes.max() < 63:
        # Adding up bits gives what joining them gives if none is there twice.
        bits, begins = np.left_shift(1, codes), np.flatnonzero(np.diff(rows, prepend=-1))
        if (np.add.reduceat(bits, begins) == np.bitwise_or.reduceat(bits, begins)).all():
            return np.arange(len(codes))
    # A name's place in `both`, counted from the end, is its last.
    both = rows * (codes.max(initial=0) + 1) + codes
    _, last = np.unique(both[::-1], return_index=True)
    return np.sort(len(both) - 1 - last)
