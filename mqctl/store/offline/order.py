"""The queue offsets of one queue's records along the log: which go on, and which cannot be right.

No checksum covers a record's queue offset. One that is not the expected one, and the very first, is therefore held
back until the next record of its queue shows what to believe: if that one goes on as if the offset had been the
expected one, the offset is damaged; else there really is a gap, or the topic was deleted and made again and counts
from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from mqctl.store.walk import MAX_QUEUE_OFFSET

T = TypeVar("T")

# More messages than this cannot be missing between two others; the offset is damaged.
MAX_GAP: Final = 1_000_000


class Kind(Enum):
    NEXT = auto()  # also the first one of all, wherever it begins
    AHEAD = auto()  # some are missing before it
    RESTART = auto()  # what the queue held before does not count any more
    BACK = auto()  # its offset was given out before: brokers serve the first who had it
    WRONG = auto()  # its offset is damaged: the record cannot be used


class Step(NamedTuple, Generic[T]):
    kind: Kind
    queue_offset: int
    item: T


class QueueOrder(Generic[T]):
    """A caller may count `next_offset` up itself for the usual record, whose offset `is_next`. `suspect` is the
    record that is held back."""

    __slots__ = ("next_offset", "suspect")

    def __init__(self) -> None:
        self.next_offset = -1
        self.suspect: tuple[int, T] | None = None

    def is_next(self, queue_offset: int) -> bool:
        return queue_offset == self.next_offset and self.suspect is None

    def take(self, queue_offset: int, item: T) -> Iterator[Step[T]]:
        """What to do about this record, or about it and the one that was held back, or nothing yet."""
        if not 0 <= queue_offset <= MAX_QUEUE_OFFSET:
            yield Step(Kind.WRONG, queue_offset, item)
            return
        refuted = False
        if self.suspect is not None:
            refuted = self._is_refuted(self.suspect[0], queue_offset)
            if refuted:
                yield Step(Kind.WRONG, *self.suspect)
                self.suspect = None
            else:
                yield from self.finish()
        if queue_offset == self.next_offset:
            yield self._accept(Kind.NEXT, queue_offset, item)
        elif refuted and queue_offset == self.next_offset + 1:
            yield self._accept(Kind.AHEAD, queue_offset, item)
        else:
            self.suspect = queue_offset, item

    def _is_refuted(self, suspect: int, following: int) -> bool:
        """Whether the record after a suspect shows that its offset is damaged."""
        if self.next_offset < 0:
            return 0 < following <= suspect
        if following == suspect + 1:
            return False
        if following == self.next_offset:  # as if the suspect did not exist: it may belong to another queue
            return suspect == 0 or suspect > self.next_offset
        return following == self.next_offset + 1

    def finish(self, *, refuted: bool = False) -> Iterator[Step[T]]:
        """Decides about one that is held back without asking the next. `refuted`: others say that it is wrong."""
        if self.suspect is None:
            return
        (queue_offset, item), self.suspect = self.suspect, None
        if refuted:
            yield Step(Kind.WRONG, queue_offset, item)
        elif self.next_offset < 0:
            yield self._accept(Kind.NEXT, queue_offset, item)
        elif queue_offset == 0:
            yield self._accept(Kind.RESTART, queue_offset, item)
        elif queue_offset < self.next_offset:
            yield Step(Kind.BACK, queue_offset, item)
        elif queue_offset > self.next_offset + MAX_GAP:
            yield Step(Kind.WRONG, queue_offset, item)
        else:
            yield self._accept(Kind.AHEAD, queue_offset, item)

    def _accept(self, kind: Kind, queue_offset: int, item: T) -> Step[T]:
        self.next_offset = queue_offset + 1
        return Step(kind, queue_offset, item)
