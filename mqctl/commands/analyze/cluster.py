"""Which masters there are, and what Spark is told for each unless the user says otherwise."""

from __future__ import annotations

import os
import re
import socket
from typing import Final

from mqctl.errors import ConfigError, ConnectionFailed

LOCAL: Final = "local[*]"

_KNOWN: Final = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|yarn|k8s://.+|spark://[^,/]+(,[^,/]+)*")
_ANSWER_S: Final = 5.0

# For all: times as text are in UTC wherever a part of the job runs.
EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# One machine needs no network but its own, and after a shuffle no more partitions than keep its cores busy.
ALONE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 2)),
}


# For the JVM, which would otherwise look for an address of this machine and say so.
LOOPBACK: Final = {"SPARK_LOCAL_IP": "127.0.0.1"}


def is_local(master: str) -> bool:
    return master.startswith("local")


def settings(master: str) -> dict[str, str]:
    return {**EVERYWHERE, **ALONE} if is_local(master) else dict(EVERYWHERE)


def check_master(master: str) -> None:
    """Raises ConfigError for what is no master's address, ConnectionFailed if nobody listens there: Spark itself would
    take a minute to say so."""
    if not _KNOWN.fullmatch(master):
        raise ConfigError(
            f"{master!r} is no Spark master",
            hint="write local[*], local[4], spark://host:7077, yarn or k8s://https://host",
        )
    if master.startswith("spark://"):
        addresses = master.removeprefix("spark://").split(",")
        if not any(_listens(address) for address in addresses):
            raise ConnectionFailed(
                f"no Spark master answers at {master}", hint="start one, or leave --master out to work on this machine"
            )


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"spark://{address} names no port", hint="write spark://host:7077")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
    except OSError:
        return False
    return True
