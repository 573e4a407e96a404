"""Running commands: in this process with streams of our own, or as the real program."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mqctl.cli import run
from mqctl.env import Environment
from tests.peers.ours import REPOSITORY

LIMIT_S = 60.0


class Stream(io.TextIOWrapper):
    """A text stream over memory that can claim to be a terminal."""

    def __init__(self, data: bytes = b"", *, terminal: bool = False) -> None:
        self._terminal = terminal
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return self._terminal

    def content(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Cli:
    """mqctl in this process. `variables` are all the environment it sees."""

    variables: Mapping[str, str]

    def __call__(
        self,
        *args: str,
        stdin: bytes = b"",
        answer: str | None = None,
        terminal: bool = False,
        clock: float | None = None,
    ) -> Ended:
        """`answer` is what a person types who is asked; without it nobody is there."""
        out, err = Stream(terminal=terminal), Stream()
        typed = Stream(stdin) if answer is None else Stream(f"{answer}\n".encode(), terminal=True)
        env = Environment(stdin=typed, stdout=out, stderr=err, variables=self.variables)
        if clock is not None:
            env.clock = lambda: clock
        # What the parser of options prints goes to the process's streams.
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(args, env)
        return Ended(int(status), out.content(), err.content())

    def ok(self, *args: str, **options: Any) -> Ended:
        """A command that must succeed."""
        ended = self(*args, **options)
        assert ended.status == 0, ended
        return ended


class Program:
    """The real program as a child process. `line` waits for its next line, with a limit."""

    def __init__(self, *args: str, cwd: Path, variables: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mqctl", *args],
            cwd=cwd,
            env=_variables(cwd, variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self._line(self.process.stdout)

    def err_line(self) -> str:
        assert self.process.stderr is not None
        return self._line(self.process.stderr)

    def _line(self, stream: IO[str]) -> str:
        # A program that hangs is killed, which ends its output and fails the test that waits for more.
        timer = threading.Timer(LIMIT_S, self.process.kill)
        timer.start()
        try:
            return stream.readline().rstrip("\n")
        finally:
            timer.cancel()

    def end(self, signal_number: int = signal.SIGTERM) -> Ended:
        self.process.send_signal(signal_number)
        return self.wait()

    def wait(self, limit_s: float = LIMIT_S) -> Ended:
        out, err = self.process.communicate(timeout=limit_s)
        return Ended(self.process.returncode, out, err)


@contextlib.contextmanager
def program(*args: str, cwd: Path, variables: Mapping[str, str] | None = None) -> Iterator[Program]:
    started = Program(*args, cwd=cwd, variables=variables)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.communicate()


def execute(*args: str, cwd: Path, variables: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> Ended:
    """The real program, to its end."""
    with program(*args, cwd=cwd, variables=variables) as started:
        return started.wait(limit_s)


def python(code: str, *args: str, cwd: Path) -> Sequence[str]:
    """The lines a fresh interpreter prints."""
    ended = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=cwd, env=_variables(cwd, {}), capture_output=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode().splitlines()


def _variables(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("NAMESRV_ADDR", "NO_COLOR")}
    return {**inherited, "PYTHONPATH": str(REPOSITORY), "HOME": str(home), **more}
