"""One broker per store folder, whichever process it is in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.store.lock import StoreLock

TRY = """
import sys
from pathlib import Path
from mqctl.errors import StoreError
from mqctl.store.lock import StoreLock
try:
    StoreLock(Path(sys.argv[1])).acquire()
except StoreError as error:
    sys.exit(error.message)
"""


def refused_elsewhere(root: Path) -> str:
    """What another process hears that wants the lock; nothing if it gets it."""
    done = subprocess.run([sys.executable, "-c", TRY, str(root)], capture_output=True, text=True, check=False)
    return done.stderr.strip()


def test_only_one_process_has_it(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.acquire()
    assert refused_elsewhere(tmp_path) == f"the store {tmp_path} is in use by another broker"
    lock.release()
    assert refused_elsewhere(tmp_path) == ""
    # Not earlier: closing any descriptor of the file gives up the lock of the whole process.
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_a_lock_file_left_behind_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    lock = StoreLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()


def test_a_folder_that_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreError):
        StoreLock(tmp_path).acquire()
