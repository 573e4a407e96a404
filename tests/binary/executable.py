"""Making the executable, and running it as a stranger: another user, an empty environment, a folder he cannot write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cli.running import LIMIT_S, Ended
from tests.peers.ours import REPOSITORY

SPEC: Final = REPOSITORY / "dist" / "mqctl.spec"
# Half a minute when the machine is idle.
BUILD_LIMIT_S: Final = 500.0
# `nobody` has this number everywhere; whoever is not root already is a user without rights.
STRANGER: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.getuid() == 0 else ()


def build(folder: Path) -> Path:
    """The executable, in `folder`; what the build leaves besides lies there as well."""
    places = ["--distpath", str(folder), "--workpath", str(folder / "work")]
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN", *places, str(SPEC)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "mqctl"


@dataclass(frozen=True)
class Executable:
    """`path` lies in a folder that a stranger can read only; `home` is one that he may write."""

    path: Path
    home: Path

    def program(self, variables: Mapping[str, str] | None = None) -> Sequence[str]:
        """The words that start it, with these variables and no others."""
        settings = [f"{name}={value}" for name, value in (variables or {}).items()]
        return [*STRANGER, "env", "-i", *settings, str(self.path)]

    def __call__(self, *args: str, variables: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> Ended:
        done = subprocess.run(
            [*self.program(variables), *args],
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, variables: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> str:
        """What a command printed that must succeed."""
        ended = self(*args, variables=variables, limit_s=limit_s)
        assert ended.status == 0, ended
        return ended.out
