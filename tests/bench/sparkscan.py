"""Spark over a store, and over several times as much: how long it takes, and what its Python workers and JVM do."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import psutil

from tests.peers.ours import REPOSITORY

if TYPE_CHECKING:
    from spark.stores import Stores

LOOK_S: Final = 0.1
# The JVM's compiler is not done after one.
REHEARSALS: Final = 3
FIXED: Final = (
    "queue_id", "queue_offset", "phys_offset", "size", "flag", "sys_flag", "born_time", "store_time", "reconsume_times",
    "prepared_offset", "body_crc", "body_size",
)  # fmt: skip
COUNTED: Final = ("queue_id", "store_time")


@dataclass(frozen=True, slots=True)
class Job:
    """What is asked of the store, the columns that this takes, and how many times the store is read to see what more of
    it costs."""

    run: Callable[[Stores], object]
    columns: tuple[str, ...]
    times: int


@dataclass(slots=True)
class Measured:
    """Seconds of each round, for the store once and several times; of the latter also the CPU time per record, and the
    most memory that any worker held."""

    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    python_ns: float = 0.0
    java_ns: float = 0.0
    python_bytes: int = 0


def _rows(stores: Stores) -> None:
    stores.messages(*FIXED).write.format("noop").mode("overwrite").save()


def _summed(stores: Stores) -> object:
    return stores.messages(*COUNTED, "size").groupBy("queue_id").agg({"size": "sum", "store_time": "max"}).collect()


def _counted(stores: Stores) -> object:
    found = stores.messages(*COUNTED, counted=True, every_s=60)
    return found.groupBy(*COUNTED).agg({"messages": "sum", "bytes": "sum"}).collect()


JOBS: Final = {
    "all rows, fixed columns": Job(_rows, FIXED, 2),
    "sums over rows, by Spark": Job(_summed, (*COUNTED, "size"), 2),
    "counted where they are read": Job(_counted, (*COUNTED, "size"), 8),
}


def measure_spark(root: Path, records: int, rounds: int) -> dict[str, Measured]:
    from pyspark.sql import SparkSession

    from spark.stores import Stores

    os.environ |= {"PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with tempfile.TemporaryDirectory(prefix="mqctl-bench-spark-") as folder:
        session = (
            SparkSession.builder.master("local[*]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.local.dir", folder)
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        try:
            measured = {name: Measured() for name in JOBS}
            for number in range(-REHEARSALS, rounds):
                for name, job in JOBS.items():
                    for which, times in enumerate((1, job.times)):
                        stores = Stores(session, ";".join(f"bench{copy}={root}" for copy in range(times)))
                        with Watch() as watch:
                            job.run(stores)
                        if number >= 0:
                            _note(measured[name], which, watch, times * records)
            return measured
        finally:
            session.stop()


def _note(found: Measured, which: int, watch: Watch, records: int) -> None:
    found.seconds[which].append(watch.seconds)
    found.python_ns, found.java_ns = (spent / records * 1e9 for spent in (watch.python_s, watch.java_s))
    found.python_bytes = max(found.python_bytes, watch.most)


class Watch:
    """The time that the block took, the CPU time of Python and Java processes below this one, and the most memory that
    any one of the Python processes held."""

    def __init__(self) -> None:
        self.most = 0
        self.seconds = 0.0
        self.python_s, self.java_s = 0.0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        self._before = _cpu_seconds()
        self._begin = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.seconds = time.perf_counter() - self._begin
        self.python_s, self.java_s = (
            after - before for before, after in zip(self._before, _cpu_seconds(), strict=True)
        )
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "python" in process.name():
                        self.most = max(self.most, process.memory_info().rss)
                except psutil.Error:
                    continue


def _cpu_seconds() -> tuple[float, float]:
    """Of Python and of Java; children that have ended count too."""
    python = java = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
            if "java" in process.name():
                java += times.user + times.system
            else:
                python += times.user + times.system + times.children_user + times.children_system
        except psutil.Error:
            continue
    return python, java
