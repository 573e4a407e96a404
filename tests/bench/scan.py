"""``python -m tests.bench.scan``: how fast a store is read, alone and by Spark.

One process over a warm log of 300-byte records, all fixed columns of each: our scanner, `cat`, Java's own decoder, and
a plain loop in Python, in turns, by the processor time they take. Then Spark over the same store with all cores, and
over several times as much, by the clock: all rows, and what counting jobs do. As in the other benchmarks only ratios
mean something.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

from mqctl.store import record
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import message_parts
from tests.peers.cache import tool
from tests.peers.jars import classpath

from . import usage
from .logs import RECORD, make_store
from .rounds import FOREIGN_SHARE, say
from .sparkscan import FIXED, JOBS, measure_spark

ROUNDS: Final = 3
MIB: Final = 2**20
LOG_MIB: Final = 1024
CLOCK_TICK_S: Final = 0.01
# The plain loop is the slowest; so much of the log tells its speed.
PLAIN_SHARE: Final = 16

RATE_TARGET: Final = 3_000_000
PLAIN_TARGET: Final = 10.0
SPARK_TARGET: Final = 0.7
TWICE_TARGET: Final = 2.1
MEMORY_TARGET_MIB: Final = 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scan", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--mib", type=int, default=LOG_MIB, help=f"size of the log ({LOG_MIB})")
    parser.add_argument("--no-spark", action="store_true", help="the single process alone")
    parser.add_argument("--dir", type=Path, help="folder for the stores (the temporary folder)")
    options = parser.parse_args()
    clock = usage.ForeignClock()
    with tempfile.TemporaryDirectory(prefix="mqctl-bench-", dir=options.dir) as folder:
        root = Path(folder) / "once"
        say(f"making a log of {options.mib} MiB")
        records = make_store(root, options.mib * MIB)
        _alone(root, records, options.rounds)
        if not options.no_spark:
            _with_spark(root, records, options.rounds)
    if (share := clock.share()) > FOREIGN_SHARE:
        print(f"note: other processes used {share:.0%} of the machine; measure again when it is idle")
    return 0


def _alone(root: Path, records: int, rounds: int) -> None:
    log = root / "commitlog" / f"{0:020d}"
    sides: dict[str, Callable[[], float]] = {
        "cat": lambda: _cat(log, records),
        "Java's decoder": lambda: _java(log, records),
        "plain Python loop": lambda: _plain(log, records // PLAIN_SHARE),
        "scanner, fixed columns": lambda: scan(root, FIXED),
        "scanner, topic and tags too": lambda: scan(root, (*FIXED, "topic", "tags")),
        "scanner, one topic by its queues": lambda: scan(root, FIXED, topics=frozenset({"orders"})),
    }
    for make in sides.values():
        make()  # the file is warm from here on
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, make in sides.items():
            rates[name].append(make())
    print(f"{'':<36}{'records/CPU s':>14}{'MB':>10}{'of scanner':>12}  target")
    ours = statistics.median(rates["scanner, fixed columns"])
    for name, found in rates.items():
        rate = statistics.median(found)
        target = ""
        if name == "scanner, fixed columns":
            target = _verdict(rate >= RATE_TARGET, f">= {RATE_TARGET:,}")
        elif name == "plain Python loop":
            target = _verdict(ours / rate >= PLAIN_TARGET, f"scanner >= {PLAIN_TARGET:g}x")
        print(f"{name:<36}{rate:>14,.0f}{rate * RECORD / 1e6:>10,.0f}{rate / ours:>11.2f}x  {target}", flush=True)


def scan(root: Path, columns: tuple[str, ...], topics: frozenset[str] = frozenset()) -> float:
    """Records per second of one process."""
    wanted = Wanted(columns=columns, topics=topics)
    begin = time.process_time()
    parts = message_parts(StoreFolder("bench", str(root)), wanted)
    count = sum(batch.num_rows for part in parts for batch in part.batches(wanted))
    return count / (time.process_time() - begin)


def _cat(log: Path, records: int) -> float:
    before = os.times()
    subprocess.run(["cat", str(log)], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    taken = after.children_user + after.children_system - before.children_user - before.children_system
    return records / max(taken, CLOCK_TICK_S)


def _java(log: Path, records: int) -> float:
    """The best of a few times in one JVM: its compiler needs some. Time of the one thread that decodes."""
    source = Path(__file__).parent / "java" / "Decode.java"
    size = min(records * RECORD, (1 << 31) - 1) // RECORD * RECORD
    command = [tool("java"), "-Xmx512m", "-cp", classpath("client-4.9.7"), str(source), str(log), str(size), "4"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    times = [line.split() for line in done.stdout.splitlines()]
    return max(int(count) / (int(nanoseconds) / 1e9) for count, nanoseconds in times)


def _plain(log: Path, records: int) -> float:
    """What one writes without numpy: one `unpack` per record, a list for the rows."""
    head: Struct = record.HEADS[0]
    with log.open("rb") as file:
        data = file.read(records * RECORD)
    rows = []
    place = 0
    begin = time.process_time()
    while place < len(data):
        fields = head.unpack_from(data, place)
        rows.append((*fields[2:9], fields[10], *fields[12:]))
        place += fields[0]
    return len(rows) / (time.process_time() - begin)


def _with_spark(root: Path, records: int, rounds: int) -> None:
    """By job: how fast it is beside the scanner that reads the same columns, once whole queries are compared, and once
    what more of the data adds to them, which leaves out what every query takes to begin."""
    cores = os.cpu_count() or 1
    measured = measure_spark(root, records, rounds)
    memory = max(each.python_bytes for each in measured.values()) / MIB
    print(f"{f'Spark, local[{cores}]':<36}{'records/s':>14}{'added':>12}{'of scanner x cores':>20}  target")
    for name, job in JOBS.items():
        once_s, more_s = (statistics.median(times) for times in measured[name].seconds)
        added = records * (job.times - 1) / (more_s - once_s)
        scanner = statistics.median(scan(root, job.columns) for _ in range(rounds))
        share, growth = added / (scanner * cores), more_s / once_s
        target = _verdict(share >= SPARK_TARGET, f">= {SPARK_TARGET}")
        print(f"{name:<36}{records / once_s:>14,.0f}{added:>12,.0f}{share:>20.2f}  {target}", flush=True)
        most = job.times * TWICE_TARGET / 2
        print(f"  time for {job.times}x the data: {growth:.2f}x  {_verdict(growth <= most, f'<= {most:g}')}")
        print(
            f"  CPU per record: {measured[name].python_ns:.0f} ns in Python, {measured[name].java_ns:.0f} ns in the JVM"
        )
    verdict = _verdict(memory <= MEMORY_TARGET_MIB, f"<= {MEMORY_TARGET_MIB}")
    print(f"memory of a Python worker at most: {memory:.0f} MiB  {verdict}")


def _verdict(good: bool, target: str) -> str:
    return f"{target} {'ok' if good else 'miss'}"


if __name__ == "__main__":
    sys.exit(main())
