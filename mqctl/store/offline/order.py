"""The queue offsets of one queue's records along the log: which go on, and which cannot be right.

No checksum covers a record's queue offset. One that is not the expected one is therefore held back until the next
record of its queue shows what to believe: if that one goes on as if the offset had been the expected one, the
offset is damaged; else there really is a gap, or the topic was deleted and made again and counts from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

# More messages than this cannot be missing between two others; the offset is damaged.
MAX_GAP: Final = 1_000_000


class Kind(Enum):
    NEXT = auto()  # also the first one of all, wherever it begins
    AHEAD = auto()  # some are missing before it
    RESTART = auto()  # what the queue held before does not count any more
    BACK = auto()  # its offset was given out before
    WRONG = auto()  # its offset is damaged: the record cannot be used


class Step(NamedTuple, Generic[T]):
    kind: Kind
    queue_offset: int
    item: T


class QueueOrder(Generic[T]):
    """A caller may count `next_offset` up itself for the usual record, whose offset `is_next`."""

    __slots__ = ("_suspect", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1
        self._suspect: tuple[int, T] | None = None

    def is_next(self, queue_offset: int) -> bool:
        return queue_offset == self.next_offset and self._suspect is None

    def take(self, queue_offset: int, item: T) -> Iterator[Step[T]]:
        """What to do about this record, or about it and the one that was held back, or nothing yet."""
        if self._suspect is not None:
            if queue_offset in (self.next_offset, self.next_offset + 1) and queue_offset != self._suspect[0] + 1:
                suspect, self._suspect = self._suspect, None
                yield Step(Kind.WRONG, *suspect)
                if queue_offset == self.next_offset + 1:
                    yield self._accept(Kind.AHEAD, queue_offset, item)
                    return
            else:
                yield from self.finish()
        if self.next_offset in (queue_offset, -1):
            yield self._accept(Kind.NEXT, queue_offset, item)
        else:
            self._suspect = queue_offset, item

    def finish(self) -> Iterator[Step[T]]:
        """Decides about one that is held back without asking the next."""
        if self._suspect is None:
            return
        (queue_offset, item), self._suspect = self._suspect, None
        if queue_offset == 0:
            yield self._accept(Kind.RESTART, queue_offset, item)
        elif queue_offset < self.next_offset:
            yield self._accept(Kind.BACK, queue_offset, item)
        elif queue_offset > self.next_offset + MAX_GAP:
            yield Step(Kind.WRONG, queue_offset, item)
        else:
            yield self._accept(Kind.AHEAD, queue_offset, item)

    def _accept(self, kind: Kind, queue_offset: int, item: T) -> Step[T]:
        self.next_offset = queue_offset + 1
        return Step(kind, queue_offset, item)
