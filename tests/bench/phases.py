"""What is measured on one broker: the phases, in order, and how much of each.

The Java broker compiles its hot paths while it runs: on two cores its CPU time per message falls threefold
over the first hundred thousand messages. So a broker is warmed up before its first phase, each phase again runs
a little of its own kind, and only then is it measured; always bounded by a number of messages and by a time.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import equal, usage
from .driver import Driver, Figures, PhaseFailed
from .sides import Broker, Side, seconds_to_first_ack

SMALL_BODY: Final = 128
LARGE_BODY: Final = 1024
QUEUES: Final = 4
LATENCY_RATE: Final = 500
DELAY_LEVEL: Final = 2
# A broker that defers work (flush, index, dispatch) still owes it when the last acknowledgement is out; it is
# given this long before its CPU clock is read.
SETTLE_S: Final = 1.0
# "One topic" and "many topics" take turns, so that a slow moment of the machine does not fall on one of them.
TOPIC_TURNS: Final = 2
MICROS: Final = 1e6
MIB: Final = 2**20

# Not a row: how many pieces of its work a broker was found to leave undone.
SHORTFALLS: Final = "work.shortfalls"

Samples = dict[str, float]
Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; numbers of messages unless the name says otherwise."""

    starts: int
    warm_up: int
    phase_warm_up: int
    sync: int
    asynchronous: int
    batch: int
    memory_after: int
    backlog: int
    latency_s: int
    topics: int
    topic_sends: int
    delayed: int
    transactions: int
    flushed_sends: int
    indexed: int
    lookups: int
    recovered_mib: int
    cap_s: int


# The send phases with their warm-ups stay below memory_after; the memory phase tops up to it, so that both
# brokers are weighed after the same number of messages.
FULL: Final = Sizes(
    starts=3,
    warm_up=120_000,
    phase_warm_up=20_000,
    sync=200_000,
    asynchronous=150_000,
    batch=200_000,
    memory_after=1_000_000,
    backlog=300_000,
    latency_s=40,
    topics=2000,
    topic_sends=60_000,
    delayed=100_000,
    transactions=60_000,
    flushed_sends=60_000,
    indexed=5_000_000,
    lookups=2000,
    recovered_mib=2048,
    cap_s=30,
)
QUICK: Final = Sizes(
    starts=1,
    warm_up=40_000,
    phase_warm_up=10_000,
    sync=50_000,
    asynchronous=50_000,
    batch=60_000,
    memory_after=300_000,
    backlog=80_000,
    latency_s=4,
    topics=200,
    topic_sends=20_000,
    delayed=20_000,
    transactions=15_000,
    flushed_sends=10_000,
    indexed=200_000,
    lookups=200,
    recovered_mib=256,
    cap_s=15,
)
# The load generator runs on a compiling virtual machine too: this much, unmeasured, before the first round.
REHEARSAL: Final = Sizes(
    starts=0,
    warm_up=0,
    phase_warm_up=5_000,
    sync=60_000,
    asynchronous=40_000,
    batch=60_000,
    memory_after=0,
    backlog=40_000,
    latency_s=2,
    topics=20,
    topic_sends=5_000,
    delayed=0,
    transactions=0,
    flushed_sends=0,
    indexed=0,
    lookups=0,
    recovered_mib=0,
    cap_s=10,
)


@dataclass(frozen=True, slots=True)
class Load:
    """A way of sending: threads or, for ``async``, messages on the way; bytes per body; messages per call."""

    do: str
    width: int
    body: int = SMALL_BODY
    per_call: int = 1


SYNC: Final = Load("sync", width=64)
SYNC_LARGE: Final = Load("sync", width=64, body=LARGE_BODY)
ASYNC: Final = Load("async", width=512)
TRANSACTION: Final = Load("transaction", width=64)
BATCH: Final = Load("batch", width=16, per_call=32)


@dataclass(slots=True)
class Run:
    """One broker, open in the load generator, on its way through the phases."""

    driver: Driver
    broker: Broker
    sizes: Sizes
    sent: int = 0
    notes: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def topic(self, count: int = 1) -> Fields:
        """Create ``count`` new topics; returns the fields that name them in a request."""
        fields: Fields = {"prefix": f"bench-{next(self._numbers)}", "topics": count}
        self.driver.ask("topics", seconds=self.sizes.cap_s * 2, queues=QUEUES, **fields)
        self.sent += count
        return fields

    def send(self, load: Load, topic: Fields, messages: int, seconds: int = 0) -> Figures:
        """Send ``messages`` that way, for at most ``seconds`` (a phase's cap); calls that fail are noted."""
        figures = self.driver.ask(
            load.do,
            seconds=seconds or self.sizes.cap_s,
            calls=messages // load.per_call,
            width=load.width,
            body=load.body,
            per_call=load.per_call,
            **topic,
        )
        self.sent += figures["messages"]
        if not figures["messages"]:
            raise PhaseFailed(f"{load.do}: no message was taken: {figures.get('first_error')}")
        if figures["failed"]:
            self.notes.append(f"{load.do}: {figures['failed']} calls failed, first: {figures['first_error']}")
        return figures

    def with_cpu(self, action: Callable[[], Figures]) -> Figures:
        """Run ``action`` and add ``cpu_us``, the broker's CPU time per message."""
        time.sleep(SETTLE_S)
        before = usage.cpu_seconds(self.broker.pid)
        figures = action()
        time.sleep(SETTLE_S)
        spent = usage.cpu_seconds(self.broker.pid) - before
        carried = max(1, figures["carried" if "carried" in figures else "messages"])
        return {**figures, "cpu_us": spent * MICROS / carried}


def warm_up(run: Run) -> Samples:
    """Bring the broker to its working speed, and see whether it does all its work (see ``equal``)."""
    if not run.sizes.warm_up:
        return {}
    topic = run.topic()
    sent = run.send(SYNC, topic, run.sizes.warm_up)["messages"]
    problems = equal.shortfalls(run.driver, topic, sent, SYNC.body, run.broker.store_dir)
    run.notes += [f"does less work than it is timed for: {problem}" for problem in problems]
    return {SHORTFALLS: len(problems)}


def sync(run: Run) -> Samples:
    """64 threads that each wait for every acknowledgement; two sizes of body."""
    return _sending(run, "sync128", SYNC, run.sizes.sync) | _sending(run, "sync1024", SYNC_LARGE, run.sizes.sync)


def asynchronous(run: Run) -> Samples:
    """One thread that keeps 512 messages on the way."""
    return _sending(run, "async", ASYNC, run.sizes.asynchronous)


def batch(run: Run) -> Samples:
    """16 threads, 32 messages per request."""
    return _sending(run, "batch", BATCH, run.sizes.batch)


def memory(run: Run) -> Samples:
    """Memory once this broker has taken ``memory_after`` messages in all."""
    topic = run.topic()
    while (missing := run.sizes.memory_after - run.sent) >= BATCH.per_call:
        run.send(BATCH, topic, missing)
    time.sleep(SETTLE_S)
    now = usage.memory(run.broker.pid)
    return {"memory.rss_mib": now.rss / MIB, "memory.private_mib": now.private / MIB}


def drain(run: Run) -> Samples:
    """A push consumer empties a topic filled beforehand."""
    _fill(run, run.sizes.phase_warm_up)()
    figures = run.with_cpu(_fill(run, run.sizes.backlog))
    if figures["missing"] or figures["repeated"]:
        run.notes.append(f"drain: {figures['missing']} messages missing, {figures['repeated']} repeated")
    return {f"drain.{key}": figures[key] for key in ("rate", "cpu_us", "first_message_s")}


def latency(run: Run) -> Samples:
    """Send call to listener, at a rate both brokers carry easily."""
    topic = run.topic()
    request = {"rate": LATENCY_RATE, "body": SMALL_BODY, "group": "bench-latency", **topic}
    seconds = run.sizes.latency_s
    with usage.Sleeper() as sleeper:
        figures = run.with_cpu(lambda: run.driver.ask("latency", seconds=seconds, **request))
    if missing := LATENCY_RATE * seconds - figures["messages"]:
        run.notes.append(f"latency: {missing} messages did not arrive; {figures.get('first_error')}")
    samples = {f"latency.{key}": figures[key] for key in ("p50_us", "p99_us", "max_us", "cpu_us")}
    return samples | {"latency.machine_us": sleeper.p99_us()}


def topics(run: Run) -> Samples:
    """The same sends to one topic and, in turn, round robin over many."""
    kinds = {"one": run.topic(), "many": run.topic(run.sizes.topics)}
    for topic in kinds.values():
        run.send(SYNC, topic, run.sizes.phase_warm_up)
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(TOPIC_TURNS):
        for kind, topic in kinds.items():
            rates[kind].append(run.send(SYNC, topic, run.sizes.topic_sends)["rate"])
    one, many = statistics.mean(rates["one"]), statistics.mean(rates["many"])
    return {"topics.one_rate": one, "topics.many_rate": many, "topics.kept": many / one}


def delayed(run: Run) -> Samples:
    """Messages that wait for five seconds first: sent, kept, delivered and consumed."""
    if not run.sizes.delayed:
        return {}
    topic = run.topic()
    late = {"delay_level": DELAY_LEVEL, **topic}
    request = {"group": f"{topic['prefix']}-group", "numbers": run.sizes.delayed, **topic}

    def send_and_receive() -> Figures:
        begin = time.monotonic()
        sent = run.send(SYNC, late, run.sizes.delayed)
        drained = run.driver.ask("drain", seconds=run.sizes.cap_s, count=sent["messages"], **request)
        if drained["missing"]:
            run.notes.append(f"delayed: {drained['missing']} messages missing")
        return {**sent, "done_s": time.monotonic() - begin}

    figures = run.with_cpu(send_and_receive)
    return {f"delayed.{key}": figures[key] for key in ("rate", "cpu_us", "done_s")}


def transactions(run: Run) -> Samples:
    """Transactions that are all committed: half message, commit, and the delivery of what was committed."""
    if not run.sizes.transactions:
        return {}
    run.send(TRANSACTION, run.topic(), run.sizes.phase_warm_up)
    topic = run.topic()
    request = {"group": f"{topic['prefix']}-group", "numbers": run.sizes.transactions, **topic}

    def send_and_receive() -> Figures:
        begin = time.monotonic()
        sent = run.send(TRANSACTION, topic, run.sizes.transactions)
        drained = run.driver.ask("drain", seconds=run.sizes.cap_s, count=sent["messages"], **request)
        if drained["missing"] or drained["repeated"]:
            run.notes.append(f"transactions: {drained['missing']} missing, {drained['repeated']} repeated")
        return {**sent, "done_s": time.monotonic() - begin}

    figures = run.with_cpu(send_and_receive)
    return {f"transactions.{key}": figures[key] for key in ("rate", "cpu_us", "p50_us", "p99_us", "done_s")}


# Memory follows the sends because it counts their messages; what comes later leaves groups and topics behind.
PHASES: Final[dict[str, Callable[[Run], Samples]]] = {
    "sync": sync,
    "async": asynchronous,
    "batch": batch,
    "memory": memory,
    "drain": drain,
    "latency": latency,
    "topics": topics,
    "delayed": delayed,
    "transactions": transactions,
}
START: Final = "start"
NAMES: Final = (START, *PHASES)


def start(side: Side, workdir: Path, sizes: Sizes) -> Samples:
    """Process start to first acknowledged message, each time on an empty store."""
    with side.namesrv(workdir / "namesrv") as namesrv:
        times = [_one_start(side, workdir / f"start-{n}", namesrv.address) for n in range(sizes.starts)]
    return {"start.s": statistics.median(times)}


def _one_start(side: Side, workdir: Path, namesrv: str) -> float:
    broker = side.broker(workdir, namesrv)
    try:
        return seconds_to_first_ack(broker)
    finally:
        broker.kill()


def _sending(run: Run, name: str, load: Load, messages: int) -> Samples:
    topic = run.topic()
    run.send(load, topic, run.sizes.phase_warm_up)
    figures = run.with_cpu(lambda: run.send(load, topic, messages))
    return {f"{name}.{key}": figures[key] for key in ("rate", "cpu_us", "p50_us", "p99_us", "p999_us", "max_us")}


def _fill(run: Run, messages: int) -> Callable[[], Figures]:
    """Fill a new topic; returns what empties it again."""
    topic = run.topic()
    filled = run.send(ASYNC, topic, messages)["messages"]
    request = {"group": f"{topic['prefix']}-group", "count": filled, "numbers": messages, **topic}
    return lambda: run.driver.ask("drain", seconds=run.sizes.cap_s, **request)
