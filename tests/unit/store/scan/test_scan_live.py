"""A store that our broker writes as fast as it can, scanned all the while."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from mqctl.client.blocking import Producer
from mqctl.remoting.message import Message
from mqctl.store.scan.messages import Wanted
from mqctl.testing import broker
from tests.unit.store.scan.reading import bodies

MESSAGES = 30_000
BATCH = 100
LOG_FILE = 1024 * 1024

WANTED = Wanted(columns=("phys_offset", "body")).with_body("full")


class Writer(threading.Thread):
    """`acknowledged` says how many messages are in the log for certain; their bodies are their numbers."""

    def __init__(self, namesrv: str) -> None:
        super().__init__()
        self.acknowledged = 0
        self._namesrv = namesrv

    def run(self) -> None:
        with Producer("g", self._namesrv) as producer:
            while self.acknowledged < MESSAGES:
                numbers = range(self.acknowledged, self.acknowledged + BATCH)
                producer.send_batch([Message("t", b"%d" % number) for number in numbers])
                self.acknowledged += BATCH


@pytest.mark.parametrize("topics", [frozenset(), frozenset({"t"})], ids=["log", "queues"])
def test_every_scan_finds_each_message_once(topics: frozenset[str]) -> None:
    """All that was acknowledged when it began, and nothing that is not whole. The log in its order from the first
    message on; queues are read one after the other, so together they are no beginning of the log."""
    with broker(mappedFileSizeCommitLog=LOG_FILE) as mq:
        mq.create_topic("t", queues=4)
        writer = Writer(mq.namesrv)
        writer.start()
        scans, before = 0, 0
        while before < MESSAGES:
            before = writer.acknowledged
            found = [int(body) for body in bodies(mq.store, replace(WANTED, topics=topics), LOG_FILE // 3)]
            assert len(found) >= before
            assert found == list(range(len(found))) if not topics else len(set(found)) == len(found)
            assert set(range(before)) <= set(found)
            scans += 1
        writer.join()
    assert scans > 1
