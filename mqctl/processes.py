"""Which servers of ours run on this machine: recognised by their command line and the ports they listen on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

import psutil

# Processes of both kinds at once.
BOTH: Final = ("standalone", "quickstart")

# Of the interpreter; their values must not be taken for the script.
_PYTHON_OPTIONS_WITH_VALUE: Final = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def find_servers(kind: str, port: int | None) -> list[psutil.Process]:
    """This user's `namesrv` or `broker` processes, all or the one that listens on `port`."""
    found = [process for process in _mine() if _is_server(process, kind)]
    # The one-file executable is two processes with one command line. The server is the child; the parent unpacked it
    # and waits to clear up.
    parents = {process.info["ppid"] for process in found}
    return [each for each in found if each.pid not in parents and (port is None or _listens(each, port))]


def _mine() -> list[psutil.Process]:
    found = psutil.process_iter(["uids", "ppid"])
    return [
        p for p in found if p.info["uids"] is not None and p.info["uids"].real == os.getuid() and p.pid != os.getpid()
    ]


def _is_server(process: psutil.Process, kind: str) -> bool:
    try:
        return server_noun(process.cmdline()) in (kind, *BOTH)
    except psutil.Error:  # it ended while we looked
        return False


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        sockets = process.net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(sock.status == psutil.CONN_LISTEN and sock.laddr.port == port for sock in sockets)


def server_noun(cmdline: Sequence[str]) -> str | None:
    """`namesrv`, `broker`, `standalone` or `quickstart` when the command line runs such a server, else None.

    `mqctl broker VERB` is a command about brokers and not one, hence the care with words after the noun.
    """
    words = _after_program(list(cmdline))
    if words is None:
        return None
    from mqctl.cli import build, load

    noun, words = _first_word(words, build())
    if noun not in ("namesrv", "broker", *BOTH):
        return None
    verb, _ = _first_word(words, load(noun))
    return noun if verb is None else None


def _after_program(words: list[str]) -> list[str] | None:
    """The arguments of `mqctl ...`, `python [options] -m mqctl ...` and `python .../bin/mqctl ...`."""
    if not words:
        return None
    if not PurePath(words[0]).name.startswith(("python", "pypy")):
        return words[1:] if PurePath(words[0]).name == "mqctl" else None
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return list(rest) if next(rest, "") == "mqctl" else None
        if word in _PYTHON_OPTIONS_WITH_VALUE:
            next(rest, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return list(rest) if PurePath(word).name == "mqctl" else None
    return None


def _first_word(words: list[str], command: Any) -> tuple[str | None, list[str]]:
    """The first word that is neither an option of the command nor an option's value, and what follows it."""
    with_value = {name for option in command.params if not option.is_flag for name in option.opts}
    rest = iter(words)
    for word in rest:
        if word in with_value:
            next(rest, None)
        elif not word.startswith("-"):
            return word, list(rest)
    return None, []
