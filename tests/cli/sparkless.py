"""Machines as `mqctl analyze` may find them: a Spark, a Java and a Python that are scripts of a few lines."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.running import Cli
from tests.peers.ours import REPOSITORY

# Stands where spark-submit would: writes down how it was called, and says to the command what a driver would say.
SUBMIT = """#!{python}
import json, sys
from pathlib import Path
sys.path.insert(0, {repository!r})
from spark.channel import Channel
from spark.request import Request
Path({home!r}, "called").write_text(json.dumps(sys.argv[1:]))
request = Request.decode(sys.argv[-1])
said = json.loads(Path({home!r}, "says").read_text())
print("java.lang.RuntimeException: noise of Spark")
if said is None:
    sys.exit(1)
channel = Channel(request.socket)
if request.prompt:
    channel.send("done", status=0)
    for query in channel.queries():
        channel.send("note", text=query)
        for event in said:
            channel.send(**event)
else:
    for event in said:
        channel.send(**event)
sys.exit(0)
"""

JAVA = """#!/bin/sh
echo 'openjdk version "{version}" 2025-04-15' >&2
"""

# A Python that has no pyspark.
PYTHON = """#!/bin/sh
echo
"""


@dataclass(frozen=True)
class Machine:
    root: Path

    @property
    def home(self) -> Path:
        return self.root / "spark"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": str(self.root / "bin"),
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": str(self.root / "bin" / "python3"),
            "HOME": str(self.root),
        }

    @property
    def cli(self) -> Cli:
        return Cli(self.variables)

    def says(self, *events: dict[str, Any] | None) -> None:
        """What the driver answers; None is one that dies before it can."""
        (self.home / "says").write_text(json.dumps(None if events == (None,) else events))

    @property
    def called(self) -> list[str]:
        found: list[str] = json.loads((self.home / "called").read_text())
        return found

    def has_java(self, version: str) -> None:
        script(self.root / "bin" / "java", JAVA.format(version=version))

    def has_spark(self, version: str) -> None:
        folder = self.home / "python" / "pyspark"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "version.py").write_text(f'__version__: str = "{version}"\n')
        text = SUBMIT.format(python=sys.executable, repository=str(REPOSITORY), home=str(self.home))
        script(self.home / "bin" / "spark-submit", text)


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def machine(root: Path) -> Machine:
    """One that has all that is needed."""
    found = Machine(root)
    script(root / "bin" / "python3", PYTHON)
    found.has_java("17.0.15")
    found.has_spark("4.3.0")
    return found
