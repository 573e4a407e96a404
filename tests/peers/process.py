"""A server under test as a child process: start until it answers, stop, kill, restart, show its logs."""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import subprocess
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

START_TIMEOUT_S: Final = 120.0
# A Java broker flushes and says goodbye to its name servers on SIGTERM; on a busy machine that takes seconds.
STOP_TIMEOUT_S: Final = 30.0
# How long each readiness question waits for the next one, unless the process dies first.
READY_INTERVAL_S: Final = 0.05
LOG_TAIL_CHARS: Final = 8000
# Below the range from which the kernel takes ports of outgoing connections: no client's socket can take a
# port picked here between our choice and the server's bind, nor while the server is down for a restart.
PORT_RANGE: Final = range(15000, 32000)

_handed_out: set[int] = set()
_running: weakref.WeakSet[ServerProcess] = weakref.WeakSet()


class ServerFailed(AssertionError):
    """A server did not come up, or died while it should not; the text carries its log."""


def free_port(*neighbours: int) -> int:
    """Return a port p such that p and each p + neighbour are free; hands out none twice."""
    for _ in range(1000):
        port = random.choice(PORT_RANGE)
        wanted = {port, *(port + distance for distance in neighbours)}
        if not wanted & _handed_out and all(map(_can_bind, wanted)):
            _handed_out.update(wanted)
            return port
    raise ServerFailed("no free port found")


def _can_bind(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind(("", port))
        except OSError:
            return False
    return True


def write_properties(path: Path, values: Mapping[str, object]) -> None:
    """Write a RocketMQ configuration file; booleans in Java's spelling."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={_java_text(value)}\n" for key, value in values.items()))


def _java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ServerProcess(ABC):
    """One server on one port with one work folder; both survive stop, kill and restart.

    Not thread-safe: the test that started it owns it.
    """

    def __init__(self, workdir: Path, port: int) -> None:
        self.workdir = Path(workdir)
        self.port = port
        self.console = self.workdir / "console.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command line."""

    @abstractmethod
    def prepare(self) -> None:
        """Write the files the command needs; called before every start, so a changed ``conf`` counts."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether the server really serves."""

    def environment(self) -> dict[str, str]:
        """Return variables to add to ours."""
        return {}

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id; an error when not running."""
        if self._process is None:
            raise ServerFailed(f"{self} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive at this moment."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = START_TIMEOUT_S) -> Self:
        """Start and return when the server serves; ServerFailed with its log when it does not in time."""
        self.launch()
        return self.wait_ready(timeout)

    def launch(self) -> Self:
        """Start without waiting, so that several slow servers can come up together; then ``wait_ready``."""
        if self.running:
            raise ServerFailed(f"{self} is already running")
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.prepare()
        with self.console.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.workdir,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal is for pytest, whose fixtures then stop the servers in order.
                start_new_session=True,
            )
        _running.add(self)
        return self

    def wait_ready(self, timeout: float = START_TIMEOUT_S) -> Self:
        """Wait until the server serves."""
        deadline = time.monotonic() + timeout
        while not self.is_ready():
            if self._exited(READY_INTERVAL_S):
                raise ServerFailed(f"{self} exited while starting\n{self.log_text()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{self} did not answer within {timeout:.0f} s\n{self.log_text()}")
        return self

    def stop(self, timeout: float = STOP_TIMEOUT_S) -> int:
        """Ask to end (SIGTERM), wait, return the exit status; killed, and ServerFailed, when too slow."""
        if not self.running:
            return self._forget()
        os.kill(self.pid, signal.SIGTERM)
        if not self._exited(timeout):
            self.kill()
            raise ServerFailed(f"{self} ignored SIGTERM for {timeout:.0f} s\n{self.log_text()}")
        return self._forget()

    def kill(self) -> None:
        """End at once (SIGKILL), as a crash would."""
        if self.running:
            # The group, which is the server's own: the one-file executable is two processes.
            os.killpg(self.pid, signal.SIGKILL)
            self._exited(STOP_TIMEOUT_S)
        self._forget()

    def restart(self, *, crash: bool = False) -> Self:
        """Stop (or crash) and start again on the same port and store."""
        if crash:
            self.kill()
        else:
            self.stop()
        return self.start()

    def finish(self) -> None:
        """End the way a ``with`` block does."""
        self.stop()

    def log_text(self) -> str:
        """Return the end of what the server printed."""
        if not self.console.exists():
            return f"({self.console} was never written)"
        return f"--- end of {self.console}\n{self.console.read_text(errors='replace')[-LOG_TAIL_CHARS:]}"

    def _exited(self, timeout: float) -> bool:
        """Wait up to ``timeout`` for the process to end; tell whether it did."""
        assert self._process is not None
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _forget(self) -> int:
        status = 0 if self._process is None else self._process.wait()
        self._process = None
        _running.discard(self)
        return status

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.finish()

    def __str__(self) -> str:
        return f"{type(self).__name__} at {self.address}"


@atexit.register
def _kill_leftovers() -> None:
    """A test run that ends badly must not leave Java servers behind."""
    for server in list(_running):
        server.kill()
