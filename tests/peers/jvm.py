"""Starting RocketMQ's Java programs: modules opened, logs to stderr, nothing written outside one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .cache import tool
from .jars import classpath

# Java 17 closed what RocketMQ 4.9 reaches into (unmapping files, counting direct memory); 5.x wants it too.
ADD_OPENS: Final = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref")
)

# 4.x looks for these below ROCKETMQ_HOME/conf and refuses to start without them.
LOGBACK_FILES_4X: Final = ("logback_namesrv.xml", "logback_broker.xml", "logback_tools.xml")
# 5.x looks for rmq.*.logback.xml on the classpath and takes the broker's for all; this property wins.
LOGBACK_FILE_5X: Final = "rmq.logback.xml"
LOGBACK_PROPERTY_5X: Final = "rmq.logback.configurationFile"
LOGBACK: Final = """<configuration>
  <appender name="console" class="{package}ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d %p %t %c{{1}} - %m%n</pattern></encoder>
  </appender>
  <root level="{level}"><appender-ref ref="console"/></root>
</configuration>
"""

# The optimising compiler never earns back its start in a program that lives for seconds. Benchmarks do without.
QUICK_START: Final = "-XX:TieredStopAtLevel=1"


def write_home(home: Path, version: str, level: str) -> None:
    """Write the part of a RocketMQ installation that is not in the jars."""
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    # 5.x ships logback under a package of its own, to stay out of the way of the application's.
    package = "" if version.startswith("4.") else "org.apache.rocketmq.logging."
    for name in (*LOGBACK_FILES_4X, LOGBACK_FILE_5X):
        (conf / name).write_text(LOGBACK.format(level=level, package=package))


def java(classpath_name: str, home: Path, jvm_args: Sequence[str], main: str, *args: str, also: str = "") -> list[str]:
    """Return a java command that keeps what it writes below ``home``; ``also`` precedes the classpath."""
    properties = [
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drocketmq.client.logRoot={home / 'logs'}",
        "-Drocketmq.client.logLevel=WARN",
        f"-D{LOGBACK_PROPERTY_5X}={home / 'conf' / LOGBACK_FILE_5X}",
    ]
    jars = ":".join(filter(None, [also, classpath(classpath_name)]))
    return [tool("java"), *jvm_args, *ADD_OPENS, *properties, "-cp", jars, main, *args]
