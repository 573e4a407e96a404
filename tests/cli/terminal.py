"""The real program in a pseudo-terminal, as a person sees it."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path

from tests.cli.running import LIMIT_S
from tests.peers.ours import REPOSITORY

INTERRUPT_S = 5
# They would say another size than the terminal's own; workers of pytest have them.
NOT_INHERITED = ("COLUMNS", "LINES")


def _as_a_shell_starts_it() -> None:
    """Ctrl-C is a signal."""
    ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """The program, and what it has drawn."""

    def __init__(
        self,
        *args: str,
        home: Path,
        variables: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "mqctl"),
    ) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(40, 160)
        self.settings = termios.tcgetattr(self._slave)
        self.drawn = b""
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        env = {
            **inherited,
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(home),
            "TERM": "xterm-256color",
            **(variables or {}),
        }
        self.process = subprocess.Popen(
            [*program, *args],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=env,
            cwd=home,
            start_new_session=True,
            preexec_fn=_as_a_shell_starts_it,
        )

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def resize(self, lines: int, columns: int) -> None:
        """The program is told, as by a window that changes."""
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, text: str) -> None:
        """Until this was drawn after the last time somebody waited."""
        assert self._drawn_within(LIMIT_S, lambda drawn: text in drawn), self.text()[-3000:]

    def wait_until(self, holds: Callable[[str], bool]) -> None:
        """Until this holds for what was drawn after the last time somebody waited."""
        assert self._drawn_within(LIMIT_S, holds), self.text()[-3000:]

    def interrupt(self, text: str) -> None:
        """Ctrl-C, until this is drawn. Readline is deaf between drawing its prompt and waiting for keys: a moment for a
        person, and long enough for a test."""
        for _ in range(int(LIMIT_S / INTERRUPT_S)):
            self.press(b"\x03")
            if self._drawn_within(INTERRUPT_S, lambda drawn: text in drawn):
                return
        raise AssertionError(self.text()[-3000:])

    def _drawn_within(self, seconds: float, holds: Callable[[str], bool]) -> bool:
        seen = len(self.drawn)
        end = time.monotonic() + seconds
        while not holds(self.text(seen)):
            if time.monotonic() > end:
                return False
            self._read(0.5)
        return True

    def end(self) -> int:
        """The exit status, once the program has ended by itself."""
        end = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    def restored(self) -> bool:
        return termios.tcgetattr(self._slave) == self.settings

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def text(self, start: int = 0) -> str:
        """What was drawn from there on, without the codes that move and colour."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.drawn[start:].decode(errors="replace"))

    def _read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            self.drawn += os.read(self._master, 65536)
