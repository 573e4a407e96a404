"""The messages of one queue that were pulled and are not consumed yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import ReceivedMessage

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop pulling from a queue until its messages are consumed. The defaults are Java's."""

    messages: int = 1000
    mib: int = 100
    # Between the first message that is not consumed and the last that was pulled: one slow message among fast ones
    # must not let what a restart would bring again grow without end.
    span: int = 2000


DEFAULT_LIMITS: Final = Limits()


@dataclass(eq=False, slots=True)
class HeldQueue:
    """Loop only. Messages are consumed in any order; the position to commit is that of the first one which is not,
    so that a restart misses none."""

    queue: MessageQueue
    next_offset: int  # of the next pull
    limits: Limits = DEFAULT_LIMITS
    dropped: bool = False  # belongs to somebody else now: what is still under way counts no more
    paused: bool = False
    last_pull_ms: int = 0
    last_consume_ms: int = 0
    size_bytes: int = 0
    _waiting: dict[int, ReceivedMessage] = field(default_factory=dict)
    _order: deque[int] = field(default_factory=deque)
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, message: ReceivedMessage) -> bool:
        """Whether it is not consumed yet."""
        return self._waiting.get(message.queue_offset) is message

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int) -> None:
        self.next_offset = next_offset
        offsets = [message.queue_offset for message in messages]
        self._waiting.update(zip(offsets, messages, strict=True))
        self._order.extend(offsets)
        self.size_bytes += sum([message.size_bytes for message in messages])

    def finish(self, messages: Iterable[ReceivedMessage]) -> int:
        """They are consumed, or somebody else's: they hold back the position no longer. Returns how many did so far."""
        before = len(self._waiting)
        for message in messages:
            if self._waiting.get(message.queue_offset) is message:
                del self._waiting[message.queue_offset]
                self.size_bytes -= message.size_bytes
        self._room.set()
        return before - len(self._waiting)

    def drop(self) -> None:
        self.dropped = True
        self._room.set()

    @property
    def first(self) -> ReceivedMessage | None:
        """The first message that is not consumed."""
        while self._order and self._order[0] not in self._waiting:
            self._order.popleft()
        return self._waiting[self._order[0]] if self._order else None

    def head(self, count: int) -> list[ReceivedMessage]:
        """The first so many that are not consumed."""
        return list(islice((self._waiting[offset] for offset in self._order if offset in self._waiting), count))

    @property
    def position(self) -> int:
        """Everything before is consumed."""
        first = self.first
        return self.next_offset if first is None else first.queue_offset

    @property
    def is_full(self) -> bool:
        return (
            len(self._waiting) >= self.limits.messages
            or self.size_bytes >= self.limits.mib * MIB
            or self.next_offset - self.position >= self.limits.span
        )

    async def room(self) -> None:
        """Returns when there is room for more, or the queue is dropped."""
        while (self.is_full or self.paused) and not self.dropped:
            self._room.clear()
            await self._room.wait()

    def resume(self) -> None:
        self.paused = False
        self._room.set()
