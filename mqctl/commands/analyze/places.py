"""Paths and URIs on the command line, as a job anywhere can use them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NoReturn

import typer

from mqctl.commands.common import Session
from mqctl.errors import ConfigError, NotFound
from mqctl.exit import ExitCode

_PATTERN = frozenset("*?[")


def is_uri(text: str) -> bool:
    return "://" in text


def absolute(text: str) -> str:
    """Executors work in folders of their own."""
    return text if is_uri(text) else str(Path(text).expanduser().absolute())


def locations(session: Session, stores: tuple[str, ...], here: bool) -> str:
    """All stores in the form that `Stores` takes. `here`: this machine reads them, so what is missing can be told
    before anything is started."""
    return ";".join(location(session, text, here) for text in stores)


def location(session: Session, text: str, here: bool) -> str:
    if ";" in text:
        raise ConfigError(f"--store {text}: a semicolon cannot be part of it", hint="give --store once for each store")
    name, sign, place = text.partition("=")
    if not sign or "/" in name:  # an equals sign within a path
        name, sign, place = "", "", text
    if not place:
        raise ConfigError(f"--store {text}: names no folder")
    found = absolute(place)
    if here and not is_uri(found) and not _PATTERN & set(found):
        _check_folder(session, found)
    return f"{name}{sign}{found}"


def _check_folder(session: Session, path: str) -> None:
    if not Path(path).exists():
        raise NotFound(f"{path}: there is no such folder")
    if not Path(path).is_dir():
        raise NotFound(f"{path} is no folder", hint="name the one that holds commitlog")
    if not os.access(path, os.R_OK | os.X_OK):
        _refuse(session, path)


def _refuse(session: Session, path: str) -> NoReturn:
    session.env.report(f"{path}: permission denied", None)
    raise typer.Exit(ExitCode.NO_PERMISSION)


def new_folder(text: str, here: bool) -> str:
    """Where rows are written. Raises ConfigError if something is there already."""
    path = absolute(text)
    if here and not is_uri(path) and Path(path).exists() and (not Path(path).is_dir() or any(Path(path).iterdir())):
        raise ConfigError(f"{path} exists already", hint="name a folder that does not, or remove it first")
    return path


def check_writable(session: Session, path: str) -> None:
    """Of a folder on this machine that may have to be made, with those it is in: Spark would need half a minute to run
    into what can be told at once. Only writing tells it: permissions are half of the story."""
    place = next(each for each in (Path(path), *Path(path).parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except PermissionError:
        _refuse(session, str(place))
    except OSError as error:
        raise ConfigError(f"--out {path}: {place} cannot be written to: {error.strerror}") from None
