"""What durability costs and what it buys: sends that wait for the disk, lookups in a large index, a start after a kill.

The last one ends the broker, so it comes after everything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.peers import wire

from .driver import Driver, PhaseFailed
from .phases import BATCH, LARGE_BODY, QUEUES, SETTLE_S, SYNC, Load, Run, Samples, Sizes
from .sides import Side, seconds_to_first_ack

GET_MAX_OFFSET: Final = 30
# Filling millions of messages takes its time; the caps of other phases are for what is measured.
FILL_S: Final = 900
LOOKUP_S: Final = 300
LARGE_BATCH: Final = Load("batch", width=16, body=LARGE_BODY, per_call=32)


def flushed(side: Side, driver: Driver, workdir: Path, sizes: Sizes) -> tuple[Samples, list[str]]:
    """64 threads, each message on disk before it is acknowledged, on a broker of its own; figures and notes."""
    with side.namesrv(workdir / "namesrv") as namesrv:
        broker = side.broker(workdir / "broker", namesrv.address)
        broker.conf["flushDiskType"] = "SYNC_FLUSH"
        with broker:
            driver.ask("open", namesrv=namesrv.address, broker=broker.address)
            run = Run(driver, broker, sizes)
            topic = run.topic()
            run.send(SYNC, topic, sizes.flushed_sends // 4)
            figures = run.with_cpu(lambda: run.send(SYNC, topic, sizes.flushed_sends))
            driver.ask("close")
    return {f"flushed.{key}": figures[key] for key in ("rate", "cpu_us", "p50_us", "p99_us")}, run.notes


def keys(run: Run) -> Samples:
    """Single lookups by key, one after the other, spread over all messages of a topic."""
    if not run.sizes.indexed:
        return {}
    topic = run.topic()
    filled = run.send(BATCH, topic, run.sizes.indexed, seconds=FILL_S)["messages"]
    time.sleep(SETTLE_S)
    request = {"numbers": filled, "ask": run.sizes.lookups, **topic}
    figures = run.driver.ask("lookup", seconds=LOOKUP_S, **request)
    if missing := run.sizes.lookups - figures["found"]:
        run.notes.append(f"keys: {missing} of {run.sizes.lookups} messages not found")
    return {f"keys.{key}": figures[key] for key in ("p50_us", "p99_us")}


def recovery(run: Run) -> Samples:
    """Killed in the moment of the last acknowledgement; process start to the next one, and all messages are there."""
    if not run.sizes.recovered_mib:
        return {}
    topic = run.topic()
    messages = run.sizes.recovered_mib * 2**20 // LARGE_BODY
    sent = run.send(LARGE_BATCH, topic, messages, seconds=FILL_S)["messages"]
    run.broker.kill()
    seconds = seconds_to_first_ack(run.broker)
    there = sum(_max_offset(run.broker.address, f"{topic['prefix']}-0", queue_id) for queue_id in range(QUEUES))
    if there < sent:
        run.notes.append(f"recovery: {sent - there} of {sent} acknowledged messages are lost")
    return {"recovery.s": seconds}


def _max_offset(address: str, topic: str, queue_id: int) -> int:
    answer = wire.request(address, GET_MAX_OFFSET, topic=topic, queueId=str(queue_id))
    if answer.code != 0:
        raise PhaseFailed(f"recovery: no end of queue {queue_id}: {answer.remark}")
    return int(answer.ext["offset"])


PHASES: Final[dict[str, Callable[[Run], Samples]]] = {"keys": keys, "recovery": recovery}
FLUSHED: Final = "flushed"
NAMES: Final = (FLUSHED, *PHASES)
