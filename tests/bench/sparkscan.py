"""Spark over stores of two sizes, in turns: how long it takes, and how much memory its Python workers hold."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import psutil

from tests.peers.ours import REPOSITORY

LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """By store: the seconds of each round, and the most that any worker held."""

    seconds: list[list[float]]
    python_bytes: list[int]


def measure_spark(roots: Sequence[Path], columns: Sequence[str], rounds: int) -> Measured:
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
            stores = [Stores(session, f"bench={root}") for root in roots]
            found = Measured([[] for _ in roots], [0 for _ in roots])
            for number in range(-1, rounds):
                for each, store in enumerate(stores):
                    begin = time.perf_counter()
                    with Watch() as watch:
                        store.messages(*columns).write.format("noop").mode("overwrite").save()
                    if number >= 0:  # the first time is the JVM's rehearsal
                        found.seconds[each].append(time.perf_counter() - begin)
                        found.python_bytes[each] = max(found.python_bytes[each], watch.most)
            return found
        finally:
            session.stop()


class Watch:
    """The most memory that any one Python process below this one holds while the block runs."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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
