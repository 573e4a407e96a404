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
from typing import Any, Final

from mqctl.background import fastest_loop
from mqctl.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage, blocking

Request = dict[str, Any]

GROUP: Final = "bench-python"


def messages(request: Request) -> list[Message]:
    """As the Java load generator makes them: with a key, so that the broker writes its index."""
    filling = bytes(request["body"] - 4)
    return [
        Message(request["topic"], number.to_bytes(4) + filling, keys=f"key-{number}")
        for number in range(request["calls"])
    ]


async def sync(request: Request) -> int:
    """One message after the other."""
    async with Producer(GROUP, request["namesrv"], retries=0) as producer:
        await producer.send(Message(request["topic"], b"warm up"))
        begin = time.perf_counter_ns()
        for message in messages(request):
            await producer.send(message)
        return time.perf_counter_ns() - begin


async def pipelined(request: Request) -> int:
    """Up to `width` messages on the way."""
    async with Producer(GROUP, request["namesrv"], retries=0, max_in_flight=request["width"]) as producer:
        await producer.send(Message(request["topic"], b"warm up"))
        begin = time.perf_counter_ns()
        failed = []

        def landed(task: asyncio.Task[Any]) -> None:
            if task.exception() is not None:
                failed.append(task.exception())

        for message in messages(request):
            (await producer.submit(message)).add_done_callback(landed)
        await producer.close()  # waits for the last of them
        if failed:
            raise SystemExit(f"{len(failed)} sends failed, first: {failed[0]}")
        return time.perf_counter_ns() - begin


def blockingly(request: Request) -> int:
    """As `sync`, through the blocking face."""
    with blocking.Producer(GROUP, request["namesrv"], retries=0) as producer:
        producer.send(Message(request["topic"], b"warm up"))
        begin = time.perf_counter_ns()
        for message in messages(request):
            producer.send(message)
        return time.perf_counter_ns() - begin


async def drain(request: Request) -> int:
    """A push consumer empties a topic; the clock runs from the first message to the last."""
    begin = end = 0
    left = request["calls"]
    empty = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        nonlocal begin, end, left
        if not begin:
            begin = time.perf_counter_ns()
        if len(message.body) >= 4:  # the one that opened the topic has no number
            left -= 1
            if left == 0:
                end = time.perf_counter_ns()
                empty.set()

    async with PushConsumer(request["group"], take, request["topic"], request["namesrv"], start=ConsumeFrom.FIRST):
        async with asyncio.timeout(request["seconds"]):
            await empty.wait()
    return end - begin


def on_a_loop(phase: Callable[[Request], Coroutine[Any, Any, int]]) -> Callable[[Request], int]:
    def run(request: Request) -> int:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            return runner.run(phase(request))

    return run


PHASES: Final[dict[str, Callable[[Request], int]]] = {
    "sync": on_a_loop(sync),
    "async": on_a_loop(pipelined),
    "blocking": blockingly,
    "drain": on_a_loop(drain),
}


def main() -> None:
    request = json.loads(sys.argv[1])
    seconds = PHASES[request["do"]](request) / 1e9
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": request["calls"] / seconds, "rss_mib": rss_mib}))


if __name__ == "__main__":
    main()
