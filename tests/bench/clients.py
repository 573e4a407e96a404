"""``python -m tests.bench.clients``: our client, Java's and Go's, in turn, against the same broker of ours.

One process each, on the same machine as the broker. As in the other benchmark only ratios mean something. The JVM
has rehearsed before the first round; our client is a fresh process in every phase, as scripts are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.peers.driver import GoDriver
from tests.peers.ours import REPOSITORY

from . import sides, usage
from .driver import Driver
from .rounds import FOREIGN_SHARE, say

ROUNDS: Final = 3
QUEUES: Final = 4
BODY: Final = 128
PHASE_SECONDS: Final = 60
REHEARSAL_SHARE: Final = 4
BACKLOG: Final = 300_000
DRAIN_TARGET: Final = 0.7
LISTENER_BATCH: Final = 32  # as Drain.java has it
MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Load:
    """A row: what both clients do, how often, with how many messages on the way, and our share of Java's rate."""

    label: str
    ours: str
    java: str
    width: int
    calls: int
    target: float | None


LOADS: Final = (
    Load("sync loop, one message on the way", "sync", "sync", 1, 30_000, 0.7),
    Load("the same, blocking client", "blocking", "sync", 1, 30_000, None),
    Load("async, 512 on the way", "async", "async", 512, 150_000, 0.7),
)

Figures = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one round")
    options = parser.parse_args()
    rounds, divisor = (1, 10) if options.quick else (options.rounds, 1)
    side = sides.ours()
    clock = usage.ForeignClock()
    with (
        tempfile.TemporaryDirectory(prefix="mqctl-bench-") as folder,
        side.namesrv(Path(folder) / "namesrv") as namesrv,
        side.broker(Path(folder) / "broker", namesrv.address) as broker,
        Driver(Path(folder) / "driver") as driver,
    ):
        driver.ask("open", namesrv=namesrv.address, broker=broker.address)
        driver.ask("topics", seconds=PHASE_SECONDS, queues=QUEUES, prefix="clients", topics=1)
        say("rehearsal of the JVM, not measured")
        for load in LOADS:
            _java(driver, load, load.calls // divisor // REHEARSAL_SHARE)
        print(f"{'':<36}{'java msg/s':>12}{'ours msg/s':>12}{'ratio':>8}{'CPU':>8}  target")
        ours = {load: _row(load, rounds, load.calls // divisor, driver, namesrv.address) for load in LOADS}
        _drain_rows(rounds, BACKLOG // divisor, driver, namesrv.address)
        java_mib = usage.memory(driver.pid).rss / MIB
        print(f"resident memory of the Java client: {java_mib:.0f} MiB")
        _print_go(ours, divisor, namesrv.address)
    if (share := clock.share()) > FOREIGN_SHARE:
        print(f"note: other processes used {share:.0%} of the machine; measure again when it is idle")
    return 0


def _row(load: Load, rounds: int, calls: int, driver: Driver, namesrv: str) -> list[Figures]:
    """What our client did in each round."""
    java: list[Figures] = []
    ours: list[Figures] = []
    for _ in range(rounds):
        java.append(_java(driver, load, calls))
        ours.append(_ours(load, calls, namesrv))
    _print_row(load.label, java, ours, load.target)
    return ours


def _drain_rows(rounds: int, backlog: int, driver: Driver, namesrv: str) -> None:
    """Push consumers empty the same topic, each in a group of its own. Java's listener takes 32 messages at a time;
    ours as many, or one."""
    topic = {"prefix": "drain", "topics": 1}
    driver.ask("topics", seconds=PHASE_SECONDS, queues=QUEUES, **topic)
    filled = driver.ask("async", seconds=PHASE_SECONDS, calls=backlog, width=64, body=BODY, **topic)["messages"]
    java: list[Figures] = []
    ours: dict[int | None, list[Figures]] = {LISTENER_BATCH: [], None: []}
    for number in range(-1, rounds):
        request = {"count": filled, "numbers": backlog, "group": f"drain-java-{number + 1}", **topic}
        figures = _ask(driver, "drain", **request)
        if number < 0:
            continue  # the JVM's rehearsal
        java.append(figures)
        for batch, found in ours.items():
            request = {"calls": filled, "numbers": backlog, "group": f"drain-ours-{batch}-{number}", "batch": batch}
            found.append(_run(do="drain", namesrv=namesrv, topic="drain-0", seconds=PHASE_SECONDS, **request))
    _print_row("drain of a backlog, push consumer", java, ours[LISTENER_BATCH], DRAIN_TARGET)
    _print_row("the same, one message at a time", java, ours[None], None)


def _print_row(label: str, java: list[Figures], ours: list[Figures], target: float | None) -> None:
    rates = _median(java, "rate"), _median(ours, "rate")
    ratio = rates[1] / rates[0]
    cpu = _median(ours, "cpu_us") / _median(java, "cpu_us")
    verdict = "" if target is None else f">= {target:g}x {'ok' if ratio >= target else 'miss'}"
    figures = f"{rates[0]:>12,.0f}{rates[1]:>12,.0f}{ratio:>7.2f}x{cpu:>7.2f}x"
    print(f"{label:<36}{figures}  {verdict}  {ours[-1]['rss_mib']:.0f} MiB", flush=True)


def _median(rounds: list[Figures], name: str) -> float:
    return statistics.median(figures[name] for figures in rounds)


def _print_go(ours: Mapping[Load, list[Figures]], divisor: int, namesrv: str) -> None:
    """Once each. The Go client goes through the tests' driver, whose own work (numbering messages, gathering results)
    is in its figures."""
    print(f"{'':<36}{'go msg/s':>12}{'ours msg/s':>12}{'ratio':>8}{'memory':>8}")
    template = {"topic": "clients-0", "body": bytes(BODY), "keys": "key-{i}"}
    with contextlib.closing(GoDriver()) as go:
        go.call("producer_start", name="p", group="bench-go", namesrv=namesrv, retryTimes=0)
        for load in LOADS:
            if load.ours != load.java:
                continue
            calls = load.calls // divisor
            begin = time.monotonic()
            go.call(
                "send_many", timeout=PHASE_SECONDS, name="p", template=template, count=calls, concurrency=load.width,
                mode=load.java,
            )  # fmt: skip
            rate, our_rate = calls / (time.monotonic() - begin), _median(ours[load], "rate")
            memory = _median(ours[load], "rss_mib") * MIB / usage.memory(go.pid).rss
            print(f"{load.label:<36}{rate:>12,.0f}{our_rate:>12,.0f}{our_rate / rate:>7.2f}x{memory:>7.2f}x")
        print(f"resident memory of the Go client: {usage.memory(go.pid).rss / MIB:.0f} MiB")


def _java(driver: Driver, load: Load, calls: int) -> Figures:
    return _ask(driver, load.java, calls=calls, width=load.width, body=BODY, prefix="clients", topics=1)


def _ask(driver: Driver, phase: str, **request: object) -> Figures:
    """One phase of the Java client, with what its process was busy for each message."""
    before = usage.cpu_seconds(driver.pid)
    figures = driver.ask(phase, seconds=PHASE_SECONDS, **request)
    busy = usage.cpu_seconds(driver.pid) - before
    return {**figures, "cpu_us": busy / figures["messages"] * 1e6}


def _ours(load: Load, calls: int, namesrv: str) -> Figures:
    return _run(do=load.ours, namesrv=namesrv, topic="clients-0", calls=calls, width=load.width, body=BODY)


def _run(**request: object) -> Figures:
    """One phase of our client, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.python_client", json.dumps(request)]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    sys.exit(main())
