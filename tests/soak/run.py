"""One run: servers, workers, a restart or two, the wait for the last message."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqctl.client.admin import Admin
from mqctl.remoting.bodies import TopicConfig
from tests.peers.ours import REPOSITORY, OurBroker, OurNamesrv

from . import java
from .cast import QUEUES, Kind, Task, parts, topics
from .growth import Sample, connections, sample
from .ledger import Books
from .worker import Order

SAMPLE_SECONDS: Final = 1.0
# Until the last delay, retry and question of the broker is over.
DRAIN_SECONDS: Final = 90.0
DRAIN_LOOK_SECONDS: Final = 0.5
LEAVE_SECONDS: Final = 60.0
# How long the broker may take to notice that sockets are closed, and how many it keeps: to its name server.
SETTLE_SECONDS: Final = 5.0
CONNECTIONS_LEFT: Final = 2

SETTINGS: Final = {
    "transactionCheckInterval": 2000,
    "transactionTimeOut": 1000,
    "flushDiskType": "ASYNC_FLUSH",
}


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    clients: int = 200
    workers: int = 4
    rate: float = 300.0  # sends a second, all producers together
    restarts: tuple[str, ...] = ("term",)  # evenly over the run; "kill" is kill -9
    java: bool = False


@dataclass(slots=True)
class Outcome:
    plan: Plan
    books: Books
    lives: list[list[Sample]] = field(default_factory=list)  # of the broker, one for each start
    name_server: list[Sample] = field(default_factory=list)
    restart_seconds: list[float] = field(default_factory=list)
    drain_seconds: float = 0.0
    connections_left: int = 0
    failed_workers: list[int] = field(default_factory=list)


def run(plan: Plan, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Raises ServerFailed when a server does not start."""
    ledgers = folder / "ledgers"
    ledgers.mkdir(parents=True)
    outcome = Outcome(plan, Books(ledgers))
    with (
        OurNamesrv(folder / "namesrv") as namesrv,
        OurBroker(folder / "broker", namesrv.address, conf=SETTINGS) as broker,
    ):
        asyncio.run(_create_topics(namesrv.address, broker.address, plan.clients))
        with contextlib.ExitStack() as clients:
            guest = clients.enter_context(java.Guest(ledgers, namesrv.address)) if plan.java else None
            workers = clients.enter_context(_workers(plan, ledgers, namesrv.address, broker.address))
            say(f"{len(parts(plan.clients))} clients in {plan.workers} processes for {plan.seconds:.0f} s")
            _watch(plan, outcome, namesrv, broker, workers, say)
            if guest is not None:
                guest.last_call.set()
            _drain(outcome, plan.workers + plan.java, say)
            outcome.failed_workers = _leave(workers)
        outcome.books.read()
        outcome.connections_left = _connections_left(broker.pid)
    return outcome


async def _create_topics(namesrv: str, broker: str, clients: int) -> None:
    async with Admin(namesrv) as admin:
        for topic in [java.TOPIC, *(topic for kind in Kind for topic in topics(kind, clients))]:
            config = TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            await admin.create_topic(broker, config)


@contextlib.contextmanager
def _workers(plan: Plan, ledgers: Path, namesrv: str, broker: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    producers = sum(part.role.task is Task.PRODUCE for part in parts(plan.clients))
    started = []
    try:
        for number in range(plan.workers):
            order = Order(
                folder=str(ledgers),
                worker=number,
                workers=plan.workers,
                clients=plan.clients,
                namesrv=namesrv,
                broker=broker,
                seconds=plan.seconds,
                pause_s=producers / plan.rate,
            )
            command = [sys.executable, "-m", "tests.soak.worker", order.to_json()]
            started.append(subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE))
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _watch(
    plan: Plan,
    outcome: Outcome,
    namesrv: OurNamesrv,
    broker: OurBroker,
    workers: list[subprocess.Popen[bytes]],
    say: Callable[[str], None],
) -> None:
    begin = time.monotonic()
    due = [plan.seconds * (n + 1) / (len(plan.restarts) + 1) for n in range(len(plan.restarts))]
    outcome.lives.append([])
    while (second := time.monotonic() - begin) < plan.seconds and all(each.poll() is None for each in workers):
        restarts = len(outcome.restart_seconds)
        if restarts < len(due) and second >= due[restarts]:
            crash = plan.restarts[restarts] == "kill"
            broker.restart(crash=crash)
            outcome.restart_seconds.append(time.monotonic() - begin - second)
            outcome.lives.append([])
            say(f"{second:5.0f} s  broker {'killed' if crash else 'stopped'} and started again")
        outcome.lives[-1].append(sample(broker.pid, second))
        outcome.name_server.append(sample(namesrv.pid, second))
        time.sleep(SAMPLE_SECONDS)


def _drain(outcome: Outcome, ledgers: int, say: Callable[[str], None]) -> None:
    """Until all ledgers say that nobody sends any more, and then until everything has come."""
    books, begin = outcome.books, time.monotonic()
    while outcome.drain_seconds < DRAIN_SECONDS:
        time.sleep(DRAIN_LOOK_SECONDS)
        books.read()
        outcome.drain_seconds = time.monotonic() - begin
        if books.silent == ledgers and not books.missing():
            break
    left = sum(map(len, books.missing().values()))
    say(f"nobody sends any more; {left} messages missing after {outcome.drain_seconds:.0f} s")


def _connections_left(pid: int) -> int:
    end = time.monotonic() + SETTLE_SECONDS
    while (left := connections(pid)) > CONNECTIONS_LEFT and time.monotonic() < end:
        time.sleep(0.1)
    return left


def _leave(workers: list[subprocess.Popen[bytes]]) -> list[int]:
    """The numbers of those that did not end well."""
    for process in workers:
        assert process.stdin is not None
        process.stdin.close()
    failed = []
    for number, process in enumerate(workers):
        try:
            status = process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            status = -1
        if status != 0:
            failed.append(number)
    return failed
