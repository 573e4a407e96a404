"""Locks of queues for consumers that must keep the order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.command import Command
from mqctl.server.broker.locks import QueueLocks
from tests.aio import in_loop
from tests.unit.server.broker.harness import serving

LOCK, UNLOCK = 41, 42


def body(client_id: str, *queues: int, group: str = "g", topic: str = "t") -> bytes:
    mq_set = [{"topic": topic, "brokerName": "broker-a", "queueId": queue} for queue in queues]
    return json.dumps({"consumerGroup": group, "clientId": client_id, "mqSet": mq_set}).encode()


class Locks:
    """The locks of a broker whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.locks = QueueLocks(60.0, lambda: self.now)

    def lock(self, client_id: str, *queues: int, **where: Any) -> list[int]:
        """The queues that the client holds then."""
        answer = self.locks.on_lock(None, Command(LOCK, body=body(client_id, *queues, **where)), None)  # type: ignore[arg-type]
        return sorted(queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"])

    def unlock(self, client_id: str, *queues: int, **where: Any) -> None:
        self.locks.on_unlock(None, Command(UNLOCK, body=body(client_id, *queues, **where)), None)  # type: ignore[arg-type]


def test_a_queue_belongs_to_who_locks_it_first() -> None:
    locks = Locks()
    assert locks.lock("one", 0, 1) == [0, 1]
    assert locks.lock("two", 0, 1, 2) == [2]
    assert locks.lock("one", 0, 1, 2) == [0, 1], "asking again is renewing"


def test_groups_and_topics_do_not_meet() -> None:
    locks = Locks()
    assert locks.lock("one", 0) == [0]
    assert locks.lock("two", 0, group="other") == [0]
    assert locks.lock("two", 0, topic="other") == [0]


def test_a_lock_ends_after_its_time() -> None:
    locks = Locks()
    locks.lock("one", 0)
    locks.now += 60
    assert locks.lock("two", 0) == []
    locks.now += 0.001
    assert locks.lock("two", 0) == [0]
    assert locks.lock("one", 0) == []


def test_renewing_prolongs_it() -> None:
    locks = Locks()
    for _ in range(5):
        assert locks.lock("one", 0) == [0]
        locks.now += 40
        assert locks.lock("two", 0) == []


def test_unlocking() -> None:
    locks = Locks()
    locks.lock("one", 0, 1)
    locks.unlock("one", 0, 7)
    assert locks.lock("two", 0, 1) == [0]


def test_a_stranger_unlocks_nothing() -> None:
    locks = Locks()
    locks.lock("one", 0)
    locks.unlock("two", 0)
    locks.unlock("one", 0, group="other")
    assert locks.lock("two", 0) == []


def test_old_locks_are_forgotten() -> None:
    locks = Locks()
    locks.lock("one", 0, 1)
    locks.now += 30
    locks.lock("one", 1)
    locks.now += 31
    locks.locks.forget_expired()
    assert [queue.queue_id for _, queue in locks.locks._locks] == [1]
    assert locks.lock("two", 0, 1) == [0]


@in_loop
async def test_over_the_wire(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        queue = {"topic": "t", "brokerName": "broker-a", "queueId": 0}
        assert (await client.json(LOCK, body=body("one", 0)))["lockOKMQSet"] == [queue]
        assert (await client.json(LOCK, body=body("two", 0)))["lockOKMQSet"] == []
        await client.ok(UNLOCK, body=body("one", 0))
        assert (await client.json(LOCK, body=body("two", 0)))["lockOKMQSet"] == [queue]


@pytest.mark.parametrize("code", [LOCK, UNLOCK])
@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b'{"mqSet":7}', b'{"mqSet":[{"queueId":"x"}]}', b"\xff\xfe"])
@in_loop
async def test_bodies_that_are_none(tmp_path: Path, code: int, bad: bytes) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.ask(code, body=bad)).code == 1
        await client.ok(LOCK, body=body("one", 0))
