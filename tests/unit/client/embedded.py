"""What tests of consumers do over and over, on a broker inside the test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mqctl.client import Message, Producer, ReceivedMessage
from mqctl.testing import EmbeddedBroker


async def send(
    mq: EmbeddedBroker, topic: str, bodies: Iterable[bytes], *, key: str | None = None, **fields: str
) -> None:
    """One after the other; all to one queue if there is a `key`."""
    async with Producer("senders", mq.namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **fields), order_key=key)  # type: ignore[arg-type]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


class Inbox:
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._arrived = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)
        self._arrived.set()

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def wait(self, count: int, seconds: float = 10.0) -> list[bytes]:
        """The bodies, once there are so many."""
        async with asyncio.timeout(seconds):
            while len(self.messages) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.bodies
