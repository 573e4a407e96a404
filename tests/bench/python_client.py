"""Our client as a load generator: one phase per run, its figures as one line of JSON on stdout.

    python -m tests.bench.python_client '{"do": "sync", "namesrv": "host:port", "topic": "t", "calls": 1000, ...}'
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

from mqctl.background import fastest_loop
from mqctl.client import Message, Producer, blocking

WARM_UP_SHARE = 5  # one in five calls is made before the clock starts


def message(topic: str, number: int, body: int) -> Message:
    """As the Java load generator makes it: a key, so that the broker writes its index, and a numbered body."""
    return Message(topic, number.to_bytes(4) + bytes(body - 4), keys=f"key-{number}")


async def sync(request: dict[str, Any]) -> int:
    """One message after the other."""
    async with Producer("bench-python", request["namesrv"], retries=0) as producer:
        for number in range(request["calls"] // WARM_UP_SHARE):
            await producer.send(message(request["topic"], number, request["body"]))
        begin = time.perf_counter_ns()
        for number in range(request["calls"]):
            await producer.send(message(request["topic"], number, request["body"]))
        return time.perf_counter_ns() - begin


async def pipelined(request: dict[str, Any]) -> int:
    """Up to `width` messages on the way."""
    async with Producer("bench-python", request["namesrv"], retries=0, max_in_flight=request["width"]) as producer:
        await _submit_all(producer, request, request["calls"] // WARM_UP_SHARE)
        begin = time.perf_counter_ns()
        await _submit_all(producer, request, request["calls"])
        return time.perf_counter_ns() - begin


async def _submit_all(producer: Producer, request: dict[str, Any], calls: int) -> None:
    last = [
        await producer.submit(message(request["topic"], number, request["body"])) for number in range(calls)
    ][-request["width"] :]
    await asyncio.gather(*last)


def block(request: dict[str, Any]) -> int:
    """As `sync`, through the blocking face."""
    with blocking.Producer("bench-python", request["namesrv"], retries=0) as producer:
        for number in range(request["calls"] // WARM_UP_SHARE):
            producer.send(message(request["topic"], number, request["body"]))
        begin = time.perf_counter_ns()
        for number in range(request["calls"]):
            producer.send(message(request["topic"], number, request["body"]))
        return time.perf_counter_ns() - begin


def main() -> None:
    request = json.loads(sys.argv[1])
    if request["do"] == "blocking":
        nanos = block(request)
    else:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            nanos = runner.run({"sync": sync, "async": pipelined}[request["do"]](request))
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": request["calls"] / (nanos / 1e9), "rss_mib": rss_mib}))


if __name__ == "__main__":
    main()
