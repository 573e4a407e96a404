"""Replays that have not come to their end: what was asked for, and how far each queue of the source is.

One file per replay, in the folder replays of the user's state; it is removed at the end. Whoever sends holds a lock, so
that nobody else takes the same replay up. The positions are written now and then: what was sent after the last
time is found out from the target, where the copies' ids are made from the replay's id and their origin.
"""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

from mqctl.env import Environment
from mqctl.errors import ConfigError, NotFound
from mqctl.userfiles import replace, state_folder

FOLDER: Final = "replays"
SAVE_SECONDS: Final = 1.0


@dataclass(slots=True)
class Replay:
    """Times in ms. `store`: a folder instead of the cluster of `name_servers`.

    By the source's queue: `ends` is where it ended when the replay began, `positions` the log offset of what was sent
    last, `lanes` which queue of the target they go to.
    """

    topic: str
    into: str
    name_servers: str
    target: str
    store: str | None = None
    since: int | None = None
    until: int | None = None
    tag: str = "*"
    key: str | None = None
    sql: str | None = None
    match: str | None = None
    speed: float | None = None
    rate: float | None = None
    max_count: int | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    started: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, int] = field(default_factory=dict)


def unfinished(env: Environment, topic: str | None) -> Replay:
    """The one begun last, of this topic if one is given. Raises NotFound, ConfigError."""
    folder = _folder(env)
    found = [] if folder is None else [_read(path) for path in folder.glob("*.json")]
    fitting = [replay for replay in found if topic in (None, replay.topic)]
    if not fitting:
        raise NotFound(f"there is no replay {'' if topic is None else f'of {topic} '}to go on with")
    return max(fitting, key=lambda replay: replay.started)


def _read(path: Path) -> Replay:
    try:
        return Replay(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="move it away; that replay is lost") from None


def _folder(env: Environment) -> Path | None:
    state = state_folder(env.variables)
    return None if state is None else state / FOLDER


class Record:
    """A replay's file while messages are sent. Without a home there is none, and the replay cannot be taken up."""

    def __init__(self, env: Environment, replay: Replay) -> None:
        """Raises ConfigError when somebody else is at it, or the file cannot be written."""
        self._replay = replay
        self._clock: Callable[[], float] = env.clock
        self._next = 0.0
        folder = _folder(env)
        self._path = None if folder is None else folder / f"{replay.id}.json"
        self._lock = None if self._path is None else _lock(self._path, replay)
        self.save()

    def save_sometimes(self) -> None:
        if self._clock() >= self._next:
            self.save()

    def save(self) -> None:
        if self._path is None:
            return
        self._next = self._clock() + SAVE_SECONDS
        try:
            replace(self._path, json.dumps(asdict(self._replay)).encode())
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None

    def close(self, *, done: bool) -> None:
        if self._path is None or self._lock is None:
            return
        if done:
            with suppress(OSError):
                self._path.unlink()
                self._path.with_suffix(".lock").unlink()
        else:
            self.save()
        self._lock.close()


def _lock(path: Path, replay: Replay) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ConfigError(f"the replay of {replay.topic} into {replay.into} is going on elsewhere") from None
    return lock
