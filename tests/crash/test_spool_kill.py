"""A producer killed with kill -9 while the cluster is gone or comes back: what was acknowledged arrives, in order."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from mqctl import testing
from mqctl.client import Message, ReceivedMessage, blocking
from mqctl.client.spooling import REPLAY_STEP
from tests.peers.ours import REPOSITORY

# One producer after the other on the same file, each killed once it was told that so many messages are kept.
KILLED_AFTER: Final = (1, 30, 7)

# Says the number of every message once `send` has returned.
PROGRAM = """
import sys
from mqctl.client import Message
from mqctl.client.blocking import Producer

with Producer("g", "127.0.0.1:1", spool=sys.argv[1]) as producer:
    for number in range(int(sys.argv[2]), 100_000):
        result = producer.send(Message("t", b"%d" % number), order_key="k")
        print(number, result.msg_id, flush=True)
"""


def spool_until_killed(path: Path, start: int, count: int) -> list[tuple[int, str]]:
    """The numbers and ids of at least `count` messages that were acknowledged before the kill."""
    command = [sys.executable, "-c", PROGRAM, str(path), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(count)]
        process.kill()
        lines += process.stdout.readlines()
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(int(number), msg_id) for number, msg_id in whole]


# Sends nothing of its own.
SUCCESSOR = """
import sys, threading
from mqctl.client.blocking import Producer

with Producer("g", sys.argv[1], spool=sys.argv[2]):
    threading.Event().wait()
"""
# Above 1 MiB, so that the file is shortened on the way; killed when so many messages have arrived.
REPLAYED, BODY_BYTES = 3000, 1000
KILLED_AT: Final = (1, 500, 1700)


def wait_until_empty(path: Path) -> None:
    deadline = time.monotonic() + 30
    while path.stat().st_size:
        assert time.monotonic() < deadline, "the spool was not emptied"
        time.sleep(0.01)


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    kept: list[tuple[int, str]] = []
    for count in KILLED_AFTER:
        kept += spool_until_killed(path, kept[-1][0] + 1 if kept else 0, count)
    with testing.broker() as mq, blocking.Producer("g", mq.namesrv, spool=path):
        wait_until_empty(path)
        stored = [(int(message.body), message.msg_id) for message in mq.messages("t")]
    assert [each for each in stored if each in set(kept)] == kept, "all there, in order, under their ids"
    # The last message before a kill may be in the file although nobody was told.
    assert len(stored) - len(kept) <= len(KILLED_AFTER)


def spooled(path: Path, count: int) -> list[str]:
    """The ids of so many messages in a new spool."""
    with blocking.Producer("g", "127.0.0.1:1", spool=path) as producer:
        first = producer.send(Message("t", bytes(BODY_BYTES)))  # finds out that there is no cluster
        sendings = [producer.submit(Message("t", bytes(BODY_BYTES))) for _ in range(count - 1)]
        return [first.msg_id, *(sending.result().msg_id for sending in sendings)]


def replay_until_killed(mq: testing.EmbeddedBroker, path: Path, count: int) -> list[ReceivedMessage]:
    """What has arrived once the kill came, at least `count` messages."""
    with subprocess.Popen([sys.executable, "-c", SUCCESSOR, mq.namesrv, str(path)], cwd=REPOSITORY) as process:
        mq.messages("t", at_least=count, timeout=30)
        process.kill()
    return mq.messages("t")


def test_killed_while_the_spool_empties(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    kept = spooled(path, REPLAYED)
    full_size = path.stat().st_size
    with testing.broker() as mq:
        mq.create_topic("t", queues=1)
        for count in KILLED_AT:
            assert len(replay_until_killed(mq, path, count)) < REPLAYED, "killed too late to be of use"
        assert 0 < path.stat().st_size < full_size, "the sent part was cut off"
        with blocking.Producer("g", mq.namesrv, spool=path):
            wait_until_empty(path)
        stored = [message.msg_id for message in mq.messages("t")]
    assert list(dict.fromkeys(stored)) == kept, "all there, in order, under their ids"
    assert len(stored) - len(kept) <= len(KILLED_AT) * REPLAY_STEP
