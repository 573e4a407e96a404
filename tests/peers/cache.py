"""The folder that keeps what is expensive to make: jars, class files, the Go binary.

Several pytest processes may want the same entry at the same moment, and any of them may be killed half-way.
So an entry is built in a temporary folder under a file lock and renamed into place: a folder that exists is
complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import pytest

# A first run downloads some hundred jars; beyond this the network is the problem and the test should say so.
TIMEOUT_S: Final = 600.0
# Build tools print a lot before they print the reason; the reason is at the end.
ERROR_TAIL_CHARS: Final = 3000

P = ParamSpec("P")
T = TypeVar("T")


class PeerUnavailable(Exception):
    """A peer cannot be had on this machine (no Java, no network, ...); the text says what is missing."""


def require(obtain: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``obtain``; an unavailable peer skips the test, or fails it when CI=true.

    A laptop without Java should still run the rest. A build server where Java vanished must not turn green by
    skipping.
    """
    try:
        return obtain(*args, **kwargs)
    except PeerUnavailable as exc:
        reason = f"peer unavailable: {exc}"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def cache_dir() -> Path:
    """Return the cache folder, created if need be."""
    configured = os.environ.get("MQCTL_PEER_CACHE")
    path = Path(configured) if configured else Path.home() / ".cache" / "mqctl" / "peers"
    path.mkdir(parents=True, exist_ok=True)
    return path


def tool(name: str) -> str:
    """Return the path of an executable, or raise PeerUnavailable."""
    path = shutil.which(name)
    if path is None:
        raise PeerUnavailable(f"{name} is not on PATH")
    return path


def entry(name: str, lock: str, build: Callable[[Path], None]) -> Path:
    """Return the cache entry ``name``, calling ``build(empty folder)`` if it does not exist yet.

    ``lock`` names what must not run twice at once: entries that share a build tool share its lock.
    """
    final = cache_dir() / name
    if final.is_dir():
        return final
    with _locked(cache_dir() / f"{lock}.lock"):
        if not final.is_dir():
            _build_and_rename(final, build)
    return final


def run_build(command: Sequence[str], cwd: Path) -> None:
    """Run a build tool to its end; failure is PeerUnavailable with the tail of what it printed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired as exc:
        raise PeerUnavailable(f"{command[0]} took more than {TIMEOUT_S:.0f} s") from exc
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-ERROR_TAIL_CHARS:]
        raise PeerUnavailable(f"{' '.join(command)} exited with {done.returncode}:\n{tail}")


def _build_and_rename(final: Path, build: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        build(temporary)
        temporary.chmod(0o755)  # mkdtemp makes it private; a shared cache is read by others
        temporary.rename(final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the kernel drops it when the process dies, so none goes stale."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
