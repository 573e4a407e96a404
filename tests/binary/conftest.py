"""The executable, built once per run of the suite, whichever worker needs it first."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binary.executable import Executable, build
from tests.peers.cache import require, tool


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workers have folders of their own below one that they share."""
    require(tool, "strip")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "binary"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = folder / "mqctl"
        return file if file.exists() else build(folder)


@pytest.fixture(scope="session")
def executable(built: Path) -> Iterator[Executable]:
    """Not below pytest's own folder, which other users cannot enter."""
    with tempfile.TemporaryDirectory(prefix="mqctl-binary-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        home = folder / "home"
        home.mkdir()
        home.chmod(0o777)
        programs = folder / "bin"
        programs.mkdir()
        shutil.copy2(built, programs / "mqctl")
        programs.chmod(0o555)
        yield Executable(programs / "mqctl", home)
        programs.chmod(0o755)
