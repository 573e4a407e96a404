"""Our client as a load generator: one phase per run, its figures as one line of JSON on stdout.

python -m tests.bench.python_client '{"do": "sync", "namesrv": "host:port", "topic": "t", "calls": 1000, ...}'
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from mqctl.background import fastest_loop
from mqctl.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage, blocking

Request = dict[str, Any]

GROUP: Final = "bench-python"
NUMBER_BYTES: Final = 4


class Spent(NamedTuple):
    """Time that passed, and what of it this process was busy, in ns."""

    wall: int
    cpu: int


def now() -> Spent:
    return Spent(time.perf_counter_ns(), time.process_time_ns())


def since(begin: Spent) -> Spent:
    end = now()
    return Spent(end.wall - begin.wall, end.cpu - begin.cpu)


def messages(request: Request) -> list[Message]:
    """As the Java load generator makes them: with a key, so that the broker writes its index."""
    filling = bytes(request["body"] - NUMBER_BYTES)
    return [
        Message(request["topic"], number.to_bytes(NUMBER_BYTES) + filling, keys=f"key-{number}")
        for number in range(request["calls"])
    ]


async def sync(request: Request) -> Spent:
    """One message after the other."""
    async with Producer(GROUP, request["namesrv"], retries=0) as producer:
        await producer.send(Message(request["topic"], b"-"))
        begin = now()
        for message in messages(request):
            await producer.send(message)
        return since(begin)


async def pipelined(request: Request) -> Spent:
    """Up to `width` messages on the way."""
    async with Producer(GROUP, request["namesrv"], retries=0, max_in_flight=request["width"]) as producer:
        await producer.send(Message(request["topic"], b"-"))
        begin = now()
        failed = []

        def landed(future: asyncio.Future[Any]) -> None:
            if future.exception() is not None:
                failed.append(future.exception())

        for message in messages(request):
            (await producer.submit(message)).add_done_callback(landed)
        await producer.close()  # waits for the last of them
        if failed:
            raise SystemExit(f"{len(failed)} sends failed, first: {failed[0]}")
        return since(begin)


def blockingly(request: Request) -> Spent:
    """As `sync`, through the blocking face."""
    with blocking.Producer(GROUP, request["namesrv"], retries=0) as producer:
        producer.send(Message(request["topic"], b"-"))
        begin = now()
        for message in messages(request):
            producer.send(message)
        return since(begin)


class Drain:
    """Ticks off the numbers of messages, as Java's does; the clock runs from the first message to the last."""

    def __init__(self, request: Request) -> None:
        self._left = request["calls"]
        self._seen = bytearray(request.get("numbers", request["calls"]))
        self._begin: Spent | None = None
        self._empty = asyncio.Event()
        self.spent = Spent(0, 0)

    def tick(self, message: ReceivedMessage) -> None:
        if not self._begin:
            self._begin = now()
        body = message.body
        if len(body) < NUMBER_BYTES:  # the one that opened the topic has no number
            return
        number = int.from_bytes(body[:NUMBER_BYTES])
        if not self._seen[number]:
            self._seen[number] = 1
            self._left -= 1
            if not self._left:
                self.spent = since(self._begin)
                self._empty.set()

    async def one(self, message: ReceivedMessage) -> None:
        self.tick(message)

    async def many(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            self.tick(message)

    async def wait(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await self._empty.wait()


async def drain(request: Request) -> Spent:
    """A push consumer empties a topic; its listener takes messages one by one, or `batch` at a time."""
    listening = Drain(request)
    batch = request.get("batch")
    async with PushConsumer(
        request["group"],
        listening.many if batch else listening.one,
        request["topic"],
        request["namesrv"],
        start=ConsumeFrom.FIRST,
        batch=batch,
    ):
        await listening.wait(request["seconds"])
    return listening.spent


def on_a_loop(phase: Callable[[Request], Coroutine[Any, Any, Spent]]) -> Callable[[Request], Spent]:
    def run(request: Request) -> Spent:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            return runner.run(phase(request))

    return run


PHASES: Final[dict[str, Callable[[Request], Spent]]] = {
    "sync": on_a_loop(sync),
    "async": on_a_loop(pipelined),
    "blocking": blockingly,
    "drain": on_a_loop(drain),
}


def main() -> None:
    request = json.loads(sys.argv[1])
    spent = PHASES[request["do"]](request)
    calls = request["calls"]
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": calls / spent.wall * 1e9, "cpu_us": spent.cpu / calls / 1e3, "rss_mib": rss_mib}))


if __name__ == "__main__":
    main()
