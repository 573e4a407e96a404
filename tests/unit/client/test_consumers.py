"""Judging what clients say, and the names of versions."""

from __future__ import annotations

import pytest

from mqctl.client.admin.consumers import version_text
from mqctl.client.admin.diagnosis import BLOCKED_MS, verdicts
from mqctl.client.admin.everywhere import guess
from mqctl.remoting.bodies import MessageQueue, SubscriptionData
from mqctl.remoting.bodies_consumer import ConsumerRunningInfo, ProcessQueueInfo
from mqctl.times import duration_text

NOW = 10_000_000
QUEUE = MessageQueue("orders", "broker-a", 3)


def info(topics: tuple[str, ...] = ("orders",), *, orderly: bool = False, **queue: int | bool) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": str(orderly).lower()},
        subscription_set=[SubscriptionData(topic=topic, sub_string="*") for topic in topics],
        mq_table={QUEUE: ProcessQueueInfo(**queue)},
    )


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (info(), []),
        (info(cached_msg_count=5, last_consume_timestamp=NOW - BLOCKED_MS), []),
        (
            info(cached_msg_count=5, last_consume_timestamp=NOW - BLOCKED_MS - 1000),
            ["orders broker-a:3 has 5 messages in hand and finished none for 1 m 1 s"],
        ),
        (info(orderly=True), ["orders broker-a:3 is not locked"]),
        (info(orderly=True, locked=True, cached_msg_count=5), []),
        (
            info(orderly=True, locked=True, droped=True, try_unlock_times=2),
            ["orders broker-a:3 could not be unlocked in 2 attempts"],
        ),
    ],
)
def test_verdicts(said: ConsumerRunningInfo, verdict: list[str]) -> None:
    assert verdicts({"c1": said}, NOW) == {"c1": verdict}


def test_a_client_that_subscribes_otherwise() -> None:
    found = verdicts({"c2": info(("orders", "bills")), "c1": info()}, NOW)
    assert found == {"c2": ["does not subscribe to the same as c1"], "c1": []}


@pytest.mark.parametrize(
    ("number", "text"),
    [(407, "V4_9_7"), (513, "V5_5_0"), (413, "V5_0_0"), (412, "V5_0_0_SNAPSHOT"), (401, "V4_9_4"), (37, "37")],
)
def test_version_text(number: int, text: str) -> None:
    assert version_text(number) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (61_000, "1 m 1 s"), (3_600_000, "1 h"), (180_060_000, "2 d 2 h")],
)
def test_duration_text(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_guess() -> None:
    assert guess("ordres", ["orders", "bills"]) == "did you mean orders?"
    assert guess("zzz", ["orders"]) is None
