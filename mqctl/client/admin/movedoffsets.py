"""Offsets that brokers had to move: a group asked for messages that are gone, or are not there yet.

Brokers leave a message about each in a topic of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.scanning import find_spans, read_spans
from mqctl.errors import NotFound
from mqctl.remoting import bodies
from mqctl.remoting.bodies import MessageQueue, OffsetMovedEvent

TOPIC: Final = "OFFSET_MOVED_EVENT"


@dataclass(slots=True)
class MovedOffsets:
    """Remembers what it has told; what was there before the first time is no news."""

    _ends: dict[MessageQueue, int] | None = field(default=None)

    async def news(self, admin: Admin) -> AsyncIterator[OffsetMovedEvent]:
        try:
            spans = await find_spans(admin, TOPIC)
        except NotFound:
            return  # no broker that makes such a topic
        seen = self._ends
        self._ends = {**(seen or {}), **{span.queue: span.end for span in spans}}
        if seen is None:
            return
        fresh = [replace(span, begin=max(span.begin, seen.get(span.queue, 0))) for span in spans]
        async for message in read_spans(admin, [span for span in fresh if span.begin < span.end]):
            try:
                yield bodies.decode(OffsetMovedEvent, message.body)
            except bodies.BodyError:
                continue


def text_of(event: OffsetMovedEvent) -> str:
    queue = f"queue {event.message_queue.broker_name}:{event.message_queue.queue_id}"
    asked, given = event.offset_request, event.offset_new
    if given > asked:
        return f"{given - asked} messages of {queue} were deleted before it consumed them"
    return f"it asked for message {asked} of {queue}, which ends at {given}"
