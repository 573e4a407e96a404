"""The Java load generator as a child process: one JSON line per request, one per answer."""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.peers.cache import entry, run_build, tool
from tests.peers.jars import classpath

CLIENT: Final = "client-5.5.0"
SOURCES: Final = Path(__file__).parent / "java"
# Roomy for samples and messages under way, so that the client's own collector is rare in the latencies.
HEAP: Final = "768m"
# A phase stops by itself; this much later the driver must be stuck.
GRACE_S: Final = 60.0
EXIT_TIMEOUT_S: Final = 10.0
READ_BYTES: Final = 64 * 1024

Figures = dict[str, Any]


class DriverFailed(Exception):
    """The load generator died or did not answer in time; nothing more can be measured."""


class PhaseFailed(Exception):
    """A phase could not be carried out on this broker; others may still be."""


def build() -> str:
    """Compile the load generator unless the cache has it; returns the classpath to run it with."""
    sources = sorted(SOURCES.glob("*.java"))
    libraries = classpath(CLIENT)
    digest = hashlib.sha256(b"\0".join([libraries.encode(), *(source.read_bytes() for source in sources)]))
    command = [tool("javac"), "-Xlint:all,-processing", "-cp", libraries]
    folder = entry(
        f"bench-{digest.hexdigest()[:16]}",
        "bench",
        lambda empty: _compile(command, sources, empty),
    )
    return os.pathsep.join([str(folder), libraries])


def _compile(command: list[str], sources: list[Path], folder: Path) -> None:
    run_build([*command, "-d", str(folder), *map(str, sources)], cwd=folder)


class Driver:
    """A running load generator; a context manager that ends it."""

    def __init__(self, workdir: Path) -> None:
        workdir.mkdir(parents=True, exist_ok=True)
        self._log = workdir / "driver.log"
        self._pending = b""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                _command(workdir),
                cwd=workdir,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ask(self, do: str, *, seconds: int = 0, **fields: object) -> Figures:
        """Run one phase, which ends itself after ``seconds``, and return its figures.

        Raises PhaseFailed when the load generator reports an error, DriverFailed when it reports nothing.
        """
        assert self._process.stdin is not None
        line = json.dumps({"do": do, "seconds": seconds, **fields}) + "\n"
        try:
            self._process.stdin.write(line.encode())
        except BrokenPipeError as exc:
            raise DriverFailed(self._with_log(f"{do}: the load generator is gone")) from exc
        figures: Figures = json.loads(self._read_line(do, time.monotonic() + seconds + GRACE_S))
        if "error" in figures:
            raise PhaseFailed(f"{do}: {figures['error']}")
        return figures

    def close(self) -> None:
        """End the process: politely by end of input, then by force."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _read_line(self, do: str, deadline: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise DriverFailed(self._with_log(f"{do}: no answer in time"))
            chunk = os.read(self._process.stdout.fileno(), READ_BYTES)
            if not chunk:
                raise DriverFailed(self._with_log(f"{do}: the load generator ended"))
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _with_log(self, problem: str) -> str:
        return f"{problem}\n{self._log.read_text(errors='replace')[-3000:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _command(workdir: Path) -> list[str]:
    logs = [
        f"-Duser.home={workdir}",
        f"-Drocketmq.client.logRoot={workdir}",
        "-Drocketmq.client.logLevel=WARN",
    ]
    return [tool("java"), f"-Xms{HEAP}", f"-Xmx{HEAP}", *logs, "-cp", build(), "Bench"]
