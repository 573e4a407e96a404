"""``python -m tests.crash.powerless SHADOW broker -c FILE``: mqctl, with a record of what a loss of power would leave.

Whatever a sync has confirmed is copied to the folder SHADOW before the caller learns of it: the content of a file
as it was when the sync began, the names in a folder likewise. `lose_power` makes of that the store as the disk has it.

    SHADOW/files/<inode>      content
    SHADOW/folders/<inode>    JSON: name -> inode, whether it is a folder

Inodes that were copied stay open, so that their numbers are not given to other files meanwhile.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqctl.__main__ import main as mqctl
from mqctl.server.broker import app, checkpoints

PAGE: Final = 4096

_numbers = itertools.count()
_kept: dict[int, int] = {}


class Shadow:
    def __init__(self, root: Path) -> None:
        self._root = root
        for name in ("files", "folders"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def take_all(self, store: Path) -> None:
        """What is there at the start counts as on disk."""
        for path in (store, *store.rglob("*")):
            descriptor = os.open(path, os.O_RDONLY)
            self.after(lambda _: None, descriptor)
            os.close(descriptor)

    def after(self, sync: Callable[[int], None], descriptor: int) -> None:
        """Syncs, and only then makes the copy count."""
        inode = os.fstat(descriptor).st_ino
        if inode not in _kept:
            _kept[inode] = os.dup(descriptor)
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        data = _names(descriptor) if is_folder else _content(descriptor)
        copy = self._root / f"copy-{next(_numbers)}"
        copy.write_bytes(data)
        sync(descriptor)
        copy.rename(self._root / ("folders" if is_folder else "files") / str(inode))


def _names(folder: int) -> bytes:
    with os.scandir(folder) as entries:
        return json.dumps({entry.name: (entry.inode(), entry.is_dir()) for entry in entries}).encode()


def _content(descriptor: int) -> bytes:
    # Through /proc, since the descriptor may be for writing only.
    return Path(f"/proc/self/fd/{descriptor}").read_bytes()


def lose_power(shadow: Path, store: Path, to: Path, rng: random.Random | None) -> None:
    """Makes in `to` what the disk has of `store`, whose process was killed: what was synced, and with `rng` some of
    the pages and files that the kernel happened to have written on its own."""
    _restore_folder(shadow, store.stat().st_ino, store, to, rng)


def _restore_folder(shadow: Path, inode: int, live: Path, to: Path, rng: random.Random | None) -> None:
    to.mkdir()
    names = shadow / "folders" / str(inode)
    children = json.loads(names.read_bytes()) if names.exists() else {}
    if rng is not None and live.is_dir():
        there = {path.name: (path.stat().st_ino, path.is_dir()) for path in live.iterdir()}
        children |= {name: child for name, child in there.items() if rng.random() < 0.5}
    for name, (child, is_folder) in children.items():
        restore = _restore_folder if is_folder else _restore_file
        restore(shadow, child, live / name, to / name, rng)


def _restore_file(shadow: Path, inode: int, live: Path, to: Path, rng: random.Random | None) -> None:
    synced = shadow / "files" / str(inode)
    content = synced.read_bytes() if synced.exists() else b""
    if rng is not None and live.is_file() and live.stat().st_ino == inode:
        content = _mixed(content, live.read_bytes(), rng)
    to.write_bytes(content)


def _mixed(synced: bytes, live: bytes, rng: random.Random) -> bytes:
    synced = synced.ljust(len(live), b"\0")
    sources = [(synced, live)[rng.random() < 0.5] for _ in range(0, len(live), PAGE)]
    return b"".join(source[number * PAGE : (number + 1) * PAGE] for number, source in enumerate(sources))


def main() -> None:
    root, store, *command = sys.argv[1:]
    shadow = Shadow(Path(root))
    shadow.take_all(Path(store))
    real_fdatasync, real_fsync = os.fdatasync, os.fsync
    os.fdatasync = lambda descriptor: shadow.after(real_fdatasync, descriptor)  # type: ignore[assignment]
    os.fsync = lambda descriptor: shadow.after(real_fsync, descriptor)  # type: ignore[assignment]
    # Often enough that a life of half a second has several.
    app.CHECKPOINT_SECONDS, checkpoints.INTERVAL_SECONDS, checkpoints.INDEX_SECONDS = 0.02, 0.05, 0.1  # type: ignore[misc]
    sys.argv[1:] = command
    mqctl()


if __name__ == "__main__":
    main()
