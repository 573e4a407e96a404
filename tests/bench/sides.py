"""The two brokers under test, each started with the same settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.peers import wire
from tests.peers.apache import ApacheBroker, ApacheNamesrv
from tests.peers.ours import OurBroker, OurNamesrv
from tests.peers.process import ServerFailed, ServerProcess

APACHE_VERSION: Final = "4.9.7"
# bin/runbroker.sh asks for 8 GB of heap and touches all of it at start. A small machine has no such room, and
# both would only make the Java broker look worse here, in memory and in start-up time.
JAVA_HEAP: Final = "1g"
JAVA_OPTIONS: Final = ("-XX:+UseG1GC", "-XX:MaxDirectMemorySize=1g")

# RocketMQ's defaults, spelled out because the test harness starts its brokers with smaller files.
SETTINGS: Final[dict[str, object]] = {
    "flushDiskType": "ASYNC_FLUSH",
    "brokerRole": "ASYNC_MASTER",
    "mappedFileSizeCommitLog": 1024 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 300_000 * 20,
    "autoCreateTopicEnable": True,
}

SEND_MESSAGE_V2: Final = 310
SUCCESS: Final = 0
START_TIMEOUT_S: Final = 60.0
# Short against any start-up time, long enough to leave a core to the broker that is starting.
PROBE_PAUSE_S: Final = 0.002
PROBE_TIMEOUT_S: Final = 1.0


Broker = ApacheBroker | OurBroker


@dataclass(frozen=True, slots=True)
class Side:
    """A kind of broker: its column in the table and how to make its servers in a work folder."""

    name: str
    describe: str
    namesrv: Callable[[Path], ServerProcess]
    broker: Callable[[Path, str], Broker]


def java() -> Side:
    """Apache's broker and name server."""
    return Side(
        name="java",
        describe=f"Apache RocketMQ {APACHE_VERSION}, heap {JAVA_HEAP} {' '.join(JAVA_OPTIONS)}; "
        "Apache's own script takes 8 GB and pre-touches them",
        namesrv=lambda workdir: ApacheNamesrv(APACHE_VERSION, workdir, jvm_args=()),
        broker=lambda workdir, namesrv: ApacheBroker(
            APACHE_VERSION, workdir, namesrv=namesrv, conf=SETTINGS, heap=JAVA_HEAP, jvm_args=JAVA_OPTIONS
        ),
    )


def ours() -> Side:
    """mqctl's broker and name server."""
    return Side(
        name="mqctl",
        describe="mqctl, this checkout",
        namesrv=OurNamesrv,
        broker=lambda workdir, namesrv: OurBroker(workdir, namesrv=namesrv, conf=SETTINGS),
    )


def seconds_to_first_ack(broker: Broker) -> float:
    """Start ``broker`` and return the time from there to the first acknowledged message.

    Each attempt is a new connection and one small message to a topic that does not exist yet.
    """
    begin = time.monotonic()
    broker.launch()
    while not _send_one(broker.address):
        if time.monotonic() - begin > START_TIMEOUT_S or not broker.running:
            raise ServerFailed(f"{broker} acknowledged nothing\n{broker.log_text()}")
        time.sleep(PROBE_PAUSE_S)
    return time.monotonic() - begin


def _send_one(address: str) -> bool:
    try:
        return wire.request(address, SEND_MESSAGE_V2, PROBE_TIMEOUT_S, **_send_fields()).code == SUCCESS
    except OSError:
        return False


def _send_fields() -> dict[str, str]:
    """The short-named header of SEND_MESSAGE_V2, in the order of the protocol."""
    return {
        "a": "bench-start",  # producerGroup
        "b": "bench-start",  # topic
        "c": "TBW102",  # defaultTopic: the template for creating it
        "d": "4",  # defaultTopicQueueNums
        "e": "0",  # queueId
        "f": "0",  # sysFlag
        "g": str(int(time.time() * 1000)),  # bornTimestamp
        "h": "0",  # flag
        "i": "",  # properties
        "j": "0",  # reconsumeTimes
        "k": "false",  # unitMode
    }
