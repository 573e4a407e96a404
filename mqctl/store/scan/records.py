"""Records that lie in one piece of a log, all their fields at once.

`mqctl.store.record` holds the layout. A field of many records is one gather out of the piece; what nobody asks for
is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqctl.store import record
from mqctl.store.scan.storage import Bytes

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


def _head(born_host: int, store_host: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("size", ">i4"),
            ("magic", ">i4"),
            ("body_crc", ">i4"),
            ("queue_id", ">i4"),
            ("flag", ">i4"),
            ("queue_offset", ">i8"),
            ("phys_offset", ">i8"),
            ("sys_flag", ">i4"),
            ("born_time", ">i8"),
            ("born_host", f"V{born_host}"),
            ("store_time", ">i8"),
            ("store_host", f"V{store_host}"),
            ("reconsume_times", ">i4"),
            ("prepared_offset", ">i8"),
            ("body_size", ">i4"),
        ]
    )


# As record.HEADS: indexed by the two host bits of the sys flag.
HEADS: Final = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))
_HEAD_SIZES: Final = np.array([each.itemsize for each in HEADS])
assert [each.itemsize for each in HEADS] == [each.size for each in record.HEADS]

# The shortest record there is: so many bytes must follow a place before anything may be gathered there.
MIN_RECORD: Final = record.MIN_RECORD
_LENGTHS: Final = 3  # of topic and properties, in a version 1 record


def gather(data: Bytes, places: Places, dtype: Any) -> NDArray[Any]:
    """What lies at these places, whatever their alignment. Each must be that much before the end of the data."""
    dtype = np.dtype(dtype)
    if not len(places):
        return np.empty(0, dtype)
    # A record of fields is copied as a whole, and not field by field.
    kind = dtype if dtype.names is None else f"V{dtype.itemsize}"
    found: NDArray[Any]
    if step := _even_step(places):
        found = np.ndarray((len(places),), kind, data, int(places[0]), (step,)).copy()
    else:
        found = np.ndarray((len(data) - dtype.itemsize + 1,), kind, data, 0, (1,))[places]
    return found.view(dtype)


def _even_step(places: Places) -> int:
    """How far apart all neighbours are; 0 if not equally far. Such places need no index, which takes half as long."""
    step = int(places[-1] - places[0]) // max(len(places) - 1, 1)
    return step if (places[1:] - places[:-1] == step).all() else 0


@dataclass(frozen=True)
class Records:
    """Sound records in `data`, which begins at `base` in the log; `at` says where in it, in rising order."""

    data: Bytes
    base: int
    at: Places
    heads: NDArray[np.void]  # read as if all addresses were IPv4

    def __len__(self) -> int:
        return len(self.at)

    def select(self, wanted: Mask) -> Records:
        return self if wanted.all() else Records(self.data, self.base, self.at[wanted], self.heads[wanted])

    def first(self, count: int) -> Records:
        return Records(self.data, self.base, self.at[:count], self.heads[:count])

    def field(self, name: str) -> NDArray[Any]:
        """Numbers in the machine's own byte order."""
        big = self.heads[name] if name in _BEFORE_HOSTS or self._usual else self._unusual(name)
        return big.astype(big.dtype.newbyteorder("="))

    @cached_property
    def hosts(self) -> NDArray[np.int32]:
        """The two host bits of each record."""
        bits: NDArray[np.int32] = self.field("sys_flag") >> 4 & 3
        return bits

    @cached_property
    def _usual(self) -> bool:
        return not self.hosts.any()

    def _unusual(self, name: str) -> NDArray[Any]:
        found = np.empty(len(self), HEADS[0][name])
        for hosts in np.unique(self.hosts):
            chosen = self.hosts == hosts
            found[chosen] = gather(self.data, self.at[chosen], HEADS[hosts])[name]
        return found

    def host(self, name: str, wanted: Mask) -> NDArray[np.void]:
        """The packed addresses of these records, which must all be of one width."""
        kinds = self.hosts[wanted]
        if not kinds.any():
            return self.heads[name][wanted]
        width = HEADS[int(kinds[0])][name].itemsize
        found = np.empty(len(kinds), f"V{width}")
        for hosts in np.unique(kinds):
            chosen = kinds == hosts
            found[chosen] = gather(self.data, self.at[wanted][chosen], HEADS[hosts])[name]
        return found

    # -- the parts of varying length: where they begin, and how long they are ---------------------------------

    @property
    def head_size(self) -> Places | int:
        """Of each record, or of all."""
        return HEADS[0].itemsize if self._usual else _HEAD_SIZES[self.hosts]

    @cached_property
    def body_at(self) -> Places:
        places: Places = self.at + self.head_size
        return places

    @cached_property
    def body_size(self) -> Places:
        return self.field("body_size").astype(np.int64)

    @cached_property
    def version_2(self) -> Mask:
        is_it: Mask = self.field("magic") == record.MAGIC_V2
        return is_it

    @cached_property
    def topic_at(self) -> Places:
        places: Places = self.body_at + self.body_size + 1
        return places + 1 * self.version_2 if self.version_2.any() else places

    @cached_property
    def topic_size(self) -> Places:
        """One byte before the topic, or two. Java reads the one as a signed number, but writes no more than 127."""
        size = gather(self.data, self.topic_at - 1, np.uint8).astype(np.int64)
        if self.version_2.any():
            size[self.version_2] += self.data[self.topic_at[self.version_2] - 2].astype(np.int64) << 8
        return size

    @cached_property
    def properties_at(self) -> Places:
        return self.topic_at + self.topic_size + 2

    @cached_property
    def properties_size(self) -> Places:
        return gather(self.data, self.properties_at - 2, ">u2").astype(np.int64)


_BEFORE_HOSTS: Final = frozenset(list(HEADS[0].names or ())[:9])


def sound(data: Bytes, base: int, at: Places) -> tuple[Records, Mask]:
    """The records at these places, and at which of them there is one: its magic is right, it was written for this very
    place, and its parts add up to its size. `MIN_RECORD` bytes must follow each place."""
    found = Records(data, base, at, gather(data, at, HEADS[0]))
    size, magic = found.field("size"), found.field("magic")
    good = (magic == record.MAGIC_V1) | (magic == record.MAGIC_V2)
    good &= found.field("phys_offset") == at + base
    good &= (size >= found.head_size + _LENGTHS) & (at + size <= len(data))
    found = found.select(good)
    kept = _parts_fit(found)
    if not kept.all():
        good[good] = kept
    return found.select(kept), good


def _parts_fit(found: Records) -> Mask:
    """Step by step, so that no length is believed before what it leads to is known to lie within the record."""
    end = found.at + found.field("size")
    fits: Mask = (found.body_size >= 0) & (found.topic_at + 2 <= end)
    if not fits.all():
        fits[fits] = _parts_fit(found.select(fits))
        return fits
    fits = found.properties_at <= end
    if not fits.all():
        fits[fits] = _parts_fit(found.select(fits))
        return fits
    whole: Mask = found.properties_at + found.properties_size == end
    return whole
