"""Held messages: whatever order they are consumed in, the position is that of the first which is not."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqctl.client.held import MIB, HeldQueue, Limits
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import ReceivedMessage
from tests.aio import in_loop
from tests.unit.client.test_idempotence import MESSAGE

QUEUE = MessageQueue("t", "broker-a", 0)


def message(offset: int, size: int = 100) -> ReceivedMessage:
    return replace(MESSAGE, queue_offset=offset, size_bytes=size)


@given(st.sets(st.integers(0, 40)), st.data())
def test_the_position_is_that_of_the_first_unconsumed(offsets: set[int], data: st.DataObject) -> None:
    held = HeldQueue(QUEUE, 0)
    messages = {offset: message(offset) for offset in sorted(offsets)}
    held.put(list(messages.values()), 41)
    left = set(offsets)
    for offset in data.draw(st.permutations(sorted(offsets))):
        assert held.position == min(left, default=41)
        assert len(held) == len(left)
        assert held.size_bytes == 100 * len(left)
        assert held.head(3) == [messages[each] for each in sorted(left)[:3]]
        assert held.finish([messages[offset]]) == 1
        assert held.finish([messages[offset]]) == 0  # a second time changes nothing
        assert held.finish([message(min(left))]) == 0  # another one from that place neither
        left.discard(offset)
    assert (held.position, held.size_bytes, held.first) == (41, 0, None)


def test_full_by_count_by_size_and_by_span() -> None:
    by_count = HeldQueue(QUEUE, 0, Limits(messages=2))
    by_count.put([message(0)], 1)
    assert not by_count.is_full
    by_count.put([message(1)], 2)
    assert by_count.is_full
    by_size = HeldQueue(QUEUE, 0, Limits(mib=1))
    by_size.put([message(0, MIB)], 1)
    assert by_size.is_full
    by_span = HeldQueue(QUEUE, 0, Limits(span=10))
    by_span.put([first := message(0)], 10)  # the others are not wanted
    assert by_span.is_full
    by_span.finish([first])
    assert not by_span.is_full


@in_loop
async def test_waiting_for_room() -> None:
    held = HeldQueue(QUEUE, 0, Limits(messages=1))
    await held.room()
    held.put([first := message(0)], 1)
    waiting = asyncio.create_task(held.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    held.finish([first])
    await waiting
    held.paused = True
    waiting = asyncio.create_task(held.room())
    await asyncio.sleep(0)
    held.resume()
    await waiting
    held.put([message(1)], 2)
    waiting = asyncio.create_task(held.room())
    await asyncio.sleep(0)
    held.drop()
    await waiting
