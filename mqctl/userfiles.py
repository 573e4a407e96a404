"""Where mqctl keeps what belongs to its user: contexts, the journal of changes, names for completion."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

FOLDER = "mqctl"


def config_folder(variables: Mapping[str, str]) -> Path | None:
    """As the XDG base directories say; None for a user without a home, who then has neither."""
    return _folder(variables, "XDG_CONFIG_HOME", ".config")


def state_folder(variables: Mapping[str, str]) -> Path | None:
    return _folder(variables, "XDG_STATE_HOME", ".local/state")


def cache_folder(variables: Mapping[str, str]) -> Path | None:
    """For what may be lost at any time."""
    return _folder(variables, "XDG_CACHE_HOME", ".cache")


def _folder(variables: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    if named := variables.get(variable):
        return Path(named) / FOLDER
    home = variables.get("HOME")
    return Path(home) / below_home / FOLDER if home else None


def replace(path: Path, data: bytes) -> None:
    """The whole content at once, readable by its user alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
