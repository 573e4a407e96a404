"""A Spark cluster of processes on this machine: a master and its workers."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

LIMIT_S: Final = 120.0
# What runs for seconds gains nothing from a compiler that thinks for longer.
QUICK: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True)
class Cluster:
    master: str
    work: tuple[Path, ...]  # a folder per worker

    def executors(self) -> list[int]:
        """How many each worker has run."""
        return [len(list(folder.glob("app-*/*"))) for folder in self.work]


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Each worker has one core. Ports are those the system gives."""
    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        said = stack.enter_context(
            _daemon("master.Master", options, folder / "master", r"Starting Spark master at (\S+)")
        )
        work = tuple(folder / f"work{number}" for number in range(workers))
        for place in work:
            more = ["--cores", "1", "--memory", "1g", "--work-dir", str(place), said]
            stack.enter_context(
                _daemon("worker.Worker", [*options, *more], place, r"Successfully registered with master")
            )
        yield Cluster(said, work)


def _variables(home: Path) -> dict[str, str]:
    """Without a way to modules of ours: executors have those that a job brings along."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, **QUICK, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}


@contextmanager
def _daemon(name: str, options: list[str], folder: Path, ready: str) -> Iterator[str]:
    """Runs until left. Hands out what the pattern found in its log, or in the pattern's group."""
    folder.mkdir(parents=True)
    home = Path(pyspark.__file__).parent
    process = subprocess.Popen(
        [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *options],
        env=_variables(home),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    killer = threading.Timer(LIMIT_S, process.kill)
    killer.start()
    try:
        found = next(match for line in process.stderr if (match := re.search(ready, line)))
        killer.cancel()
        drained = threading.Thread(target=process.stderr.read)  # or it would stop when the pipe is full
        drained.start()
        yield found[1] if found.groups() else found[0]
    finally:
        killer.cancel()
        process.terminate()
        process.wait(LIMIT_S)
        if "drained" in locals():
            drained.join()
        process.stderr.close()
