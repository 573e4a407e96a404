"""How long brokers take to store a message: send some to the topic that each broker keeps under its own name."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from mqctl.client.producer import Producer
from mqctl.errors import MqError
from mqctl.remoting.message import Message


@dataclass(frozen=True, slots=True)
class Timed:
    """One message: how long it took, and what became of it."""

    milliseconds: float
    status: str
    msg_id: str | None
    error: MqError | None = None


async def time_sends(producer: Producer, topic: str, count: int, size_bytes: int) -> AsyncIterator[Timed]:
    """One after the other. The first, which also connects, comes beforehand and is not counted."""
    message = Message(topic=topic, body=b"a" * size_bytes)
    for number in range(count + 1):
        began = time.perf_counter()
        try:
            result = await producer.send(message)
        except MqError as error:
            timed = Timed((time.perf_counter() - began) * 1000, type(error).__name__, None, error)
        else:
            timed = Timed((time.perf_counter() - began) * 1000, str(result.status), result.msg_id)
        if number or timed.error is not None:
            yield timed
        if not number and timed.error is not None:
            return
