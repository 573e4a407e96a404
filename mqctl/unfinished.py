"""Work that sends messages and may be interrupted: a file that says how far it is, and a lock while somebody is at it.

One file for each, in a folder of the user's state for all of a kind; it is removed at the end. The lock keeps anybody
else on this machine from doing the same at the same time. The file is written now and then: what was sent after the
last time has to be found out from the brokers.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from mqctl.env import Environment
from mqctl.errors import ConfigError
from mqctl.userfiles import replace, state_folder

SAVE_SECONDS: Final = 1.0


def folder_of(env: Environment, kind: str) -> Path | None:
    """None for a user without a home."""
    state = state_folder(env.variables)
    return None if state is None else state / kind


def read(path: Path) -> dict[str, Any]:
    """Raises ConfigError."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="move it away; what it says is lost") from None


class Record:
    """The file of one piece of work while somebody is at it. Without a home there is none, and the work cannot be taken
    up."""

    def __init__(
        self, env: Environment, kind: str, name: str, content: Callable[[], dict[str, Any]], busy: str
    ) -> None:
        """Nothing is written yet. Raises ConfigError: with `busy` when somebody else is at it, or when the file cannot
        be written."""
        self._content = content
        self._clock = env.clock
        self._next = 0.0
        self._begun = False
        folder = folder_of(env, kind)
        self._path = None if folder is None else folder / f"{name}.json"
        self._lock = None if self._path is None else _lock(self._path.with_suffix(".lock"), busy)

    def earlier(self) -> dict[str, Any]:
        """What somebody left who did not come to the end; empty if there is nothing. Raises ConfigError."""
        return read(self._path) if self._path is not None and self._path.exists() else {}

    def save_sometimes(self) -> None:
        if self._clock() >= self._next:
            self.save()

    def save(self) -> None:
        """Raises ConfigError."""
        if self._path is None:
            return
        self._begun = True
        self._next = self._clock() + SAVE_SECONDS
        try:
            replace(self._path, json.dumps(self._content()).encode())
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None

    def close(self, *, done: bool) -> None:
        """What was never saved was never begun, and leaves nothing behind."""
        if self._path is None or self._lock is None:
            return
        with self._lock:
            if done:
                self._path.unlink(missing_ok=True)
            elif self._begun:
                self.save()
            if not self._path.exists():
                self._path.with_suffix(".lock").unlink()


def _lock(path: Path, busy: str) -> IO[str]:
    """The open file, whose end is that of the lock."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it may have removed it meanwhile, and somebody else may have another of that name by now.
        if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            return lock
    lock.close()
    raise ConfigError(busy)
