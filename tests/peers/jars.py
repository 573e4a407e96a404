"""Classpaths of Apache RocketMQ's servers and clients, resolved by Maven once and kept in the cache.

``python -m tests.peers.jars`` fetches all of them ahead of a test run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from .cache import PeerUnavailable, entry, require, run_build, tool

__all__ = ["CLASSPATHS", "PeerUnavailable", "classpath", "require"]


class Artifact(NamedTuple):
    """A Maven artifact by name; where it comes from is the business of the user's Maven settings."""

    group: str
    name: str
    version: str


def _rocketmq(version: str, *modules: str) -> tuple[Artifact, ...]:
    return tuple(Artifact("org.apache.rocketmq", f"rocketmq-{module}", version) for module in modules)


# The driver speaks JSON; RocketMQ's own JSON library changed between 4.x and 5.x, so it brings one.
GSON: Final = Artifact("com.google.code.gson", "gson", "2.10.1")

CLASSPATHS: Final[dict[str, tuple[Artifact, ...]]] = {
    "server-4.9.7": _rocketmq("4.9.7", "namesrv", "broker", "tools"),
    "client-4.9.7": (*_rocketmq("4.9.7", "client", "tools", "acl"), GSON),
    "server-5.5.0": _rocketmq("5.5.0", "namesrv", "broker", "tools", "example"),
    "client-5.5.0": (*_rocketmq("5.5.0", "client", "tools", "example"), GSON),
}


def classpath(name: str) -> str:
    """Return the Java classpath called ``name`` (a key of CLASSPATHS), resolving it on first use.

    Raises PeerUnavailable when Java or Maven is missing or Maven cannot get the artifacts.
    """
    pom = _pom(CLASSPATHS[name])
    tool("java")
    # The digest makes an edited artifact list a new entry instead of a stale one.
    digest = hashlib.sha256(pom.encode()).hexdigest()[:8]
    # One lock for all names: Maven's local repository does not promise to bear two writers.
    folder = entry(f"{name}-{digest}", "maven", lambda empty: _copy_jars(pom, empty))
    # Explicit and sorted: the order in which Java expands "lib/*" depends on the file system.
    return os.pathsep.join(str(jar) for jar in sorted((folder / "lib").glob("*.jar")))


def _copy_jars(pom: str, folder: Path) -> None:
    (folder / "pom.xml").write_text(pom)
    goal = "dependency:copy-dependencies"
    options = [f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime"]
    run_build([tool("mvn"), "-q", "-B", goal, *options], cwd=folder)


def _pom(artifacts: Iterable[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{a.group}</groupId><artifactId>{a.name}</artifactId><version>{a.version}</version>"
        "</dependency>\n"
        for a in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n<modelVersion>4.0.0</modelVersion>\n'
        "<groupId>mqctl</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>\n"
        f"<dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )


if __name__ == "__main__":
    for each in CLASSPATHS:
        print(each, classpath(each).count(os.pathsep) + 1, "jars")
