"""Names that shells completed lately, so that pressing TAB again does not ask the cluster again.

They are kept for some seconds in a file of the user's cache, which may be lost at any time:

    {"topics of 127.0.0.1:9876": {"at": 1700000000.0, "names": ["orders"]}}
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Final

from mqctl.env import Environment
from mqctl.userfiles import cache_folder, replace

FILE_NAME: Final = "completion.json"
# Longer than typing a command takes; shorter than anybody waits for the name of what was just made.
KEPT_SECONDS: Final = 10.0


def recall(env: Environment, key: str) -> list[str] | None:
    entry = _entries(env).get(key)
    return None if entry is None else entry["names"]


def remember(env: Environment, key: str, names: list[str]) -> None:
    path = _path(env)
    if path is None:
        return
    entries = {**_entries(env), key: {"at": env.clock(), "names": names}}
    with contextlib.suppress(OSError):  # then the next TAB asks the cluster
        replace(path, json.dumps(entries).encode())


def _entries(env: Environment) -> dict[str, Any]:
    """Those that are not too old. None of a file that cannot be read, or that something else has written."""
    path, now = _path(env), env.clock()
    try:
        entries = {} if path is None else json.loads(path.read_bytes())
        fresh = {key: entry for key, entry in entries.items() if 0 <= now - entry["at"] < KEPT_SECONDS}
        return {key: {"at": entry["at"], "names": list(entry["names"])} for key, entry in fresh.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _path(env: Environment) -> Path | None:
    folder = cache_folder(env.variables)
    return None if folder is None else folder / FILE_NAME
