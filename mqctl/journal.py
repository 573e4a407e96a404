"""The journal: what commands changed on clusters, with the state before, so that it can be put back.

One file per user, a JSON object per line, the oldest first. An entry holds one command's changes, each with what
identifies the thing, the state before and the state after; a state is plain data, None where there was nothing.
mqctl.client.admin.restoring knows what these mean and how to put them back, by the `kind` of the change or else of
its entry.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mqctl.env import Environment
from mqctl.errors import ConfigError
from mqctl.userfiles import replace, state_folder

FILE_NAME: Final = "journal.jsonl"
# Older ones are forgotten; nobody undoes the change before the last thousand.
MAX_ENTRIES: Final = 1000

Change = dict[str, Any]


@dataclass(slots=True)
class Entry:
    id: int
    timestamp: int
    name_servers: str
    kind: str
    summary: str
    changes: list[Change]
    undone: bool = False


def change(before: Any, after: Any, **thing: Any) -> Change:
    """One thing that a command changed, for `record`."""
    return {**thing, "before": before, "after": after}


def record(env: Environment, name_servers: str, kind: str, summary: str, changes: Sequence[Change]) -> int | None:
    """Writes an entry of the changes that changed something, and says how to undo it. Returns its number, or None if
    there was nothing to write or nowhere to write it: the change is made, so that is no error."""
    changed = [item for item in changes if item["before"] != item["after"]]
    path = _path(env)
    if not changed or path is None:
        return None
    try:
        with _locked(path):
            entries = _read(path)
            number = entries[-1].id + 1 if entries else 1
            now_ms = int(env.clock() * 1000)
            entries.append(Entry(number, now_ms, name_servers, kind, summary, changed))
            _write(path, entries[-MAX_ENTRIES:])
    except (OSError, ConfigError) as error:
        env.say(f"warning: this is not in the journal and cannot be undone: {error}")
        return None
    env.say(f"undo it with `mqctl undo {number}`")
    return number


def entries(env: Environment) -> list[Entry]:
    """The oldest first. Raises ConfigError."""
    path = _path(env)
    return [] if path is None else _read(path)


def mark_undone(env: Environment, number: int) -> None:
    """Raises ConfigError."""
    path = _path(env)
    if path is None:
        return
    try:
        with _locked(path):
            found = _read(path)
            for entry in found:
                entry.undone = entry.undone or entry.id == number
            _write(path, found)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _path(env: Environment) -> Path | None:
    folder = state_folder(env.variables)
    return None if folder is None else folder / FILE_NAME


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two commands at the same time must not take the same number, nor lose each other's entries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> list[Entry]:
    try:
        lines = path.read_text().splitlines()
        return [Entry(**json.loads(line)) for line in lines]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        raise ConfigError(f"{path} is damaged", hint="move it away; changes before now cannot be undone then") from None


def _write(path: Path, found: Sequence[Entry]) -> None:
    replace(path, "".join(json.dumps(asdict(entry)) + "\n" for entry in found).encode())
