"""What is told beside the data: how far the work is, and which brokers the answer lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import typer

from mqctl.commands.common import Session
from mqctl.errors import MqError
from mqctl.exit import ExitCode

# Progress is shown when something takes longer than this, and then this often.
INTERVAL_S: Final = 0.3
_WIDTH: Final = 60


def report_missing(session: Session, failed: Mapping[str, MqError]) -> None:
    """Ends the program as done in part if brokers are missing from what was just printed."""
    tell_missing(session, failed)
    if failed:
        raise typer.Exit(ExitCode.PARTIAL)


def tell_missing(session: Session, failed: Mapping[str, MqError]) -> None:
    for name, error in failed.items():
        session.env.say(f"warning: {name} is missing here: {error.message}")


class Counting:
    """`asked 300 of 500` in one line that changes, on a terminal only and gone when left. `total` may be unknown."""

    def __init__(self, session: Session, verb: str, total: int | None) -> None:
        self._env = session.env
        self._verb = verb
        self._total = total
        self._next = self._env.clock() + INTERVAL_S
        self._shown = False

    def __enter__(self) -> Callable[[int], None]:
        return self._tell

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write("\r" + " " * _WIDTH + "\r")

    def _tell(self, done: int) -> None:
        now = self._env.clock()
        if now >= self._next and self._env.stderr.isatty():
            self._next = now + INTERVAL_S
            self._shown = True
            of_total = "" if self._total is None else f" of {self._total}"
            self._write(f"\r{f'{self._verb} {done}{of_total}':<{_WIDTH}}")

    def _write(self, text: str) -> None:
        self._env.stderr.write(text)
        self._env.stderr.flush()
