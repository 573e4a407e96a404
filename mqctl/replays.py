"""Replays that have not come to their end: what was asked for, and how far each queue of the source is.

What was sent after that was written last is found out from the target, where the copies' ids are made from the replay's
id and their origin.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from mqctl.env import Environment
from mqctl.errors import ConfigError, NotFound
from mqctl.unfinished import Record, folder_of, read

FOLDER: Final = "replays"


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
    folder = folder_of(env, FOLDER)
    found = [] if folder is None else [_read(path) for path in folder.glob("*.json")]
    fitting = [replay for replay in found if topic in (None, replay.topic)]
    if not fitting:
        raise NotFound(f"there is no replay {'' if topic is None else f'of {topic} '}to go on with")
    return max(fitting, key=lambda replay: replay.started)


def _read(path: Path) -> Replay:
    try:
        return Replay(**read(path))
    except TypeError as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="move it away; that replay is lost") from None


def record_of(env: Environment, replay: Replay) -> Record:
    """Raises ConfigError when somebody else is at it, or the file cannot be written."""
    busy = f"the replay of {replay.topic} into {replay.into} is going on elsewhere"
    return Record(env, FOLDER, replay.id, lambda: asdict(replay), busy)
