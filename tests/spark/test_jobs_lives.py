"""retries, delays, transactions and trace: what happened to messages after they were sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.errors import ConfigError, NotFound
from spark import delays, retries, trace, transactions
from spark.result import Ask, Result
from spark.stores import Stores
from tests.spark.storing import NOW_MS, Keeper, keeping, offset_id

HOUR_MS = 3_600_000
HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"


def rows(result: Result) -> list[dict[str, Any]]:
    return [row.asDict() for row in result.frame.collect()]


def ms(moment: Any) -> int:
    return round(moment.timestamp() * 1000)


def ask(**options: Any) -> Ask:
    return Ask(now_ms=NOW_MS, **options)


def stores_of(spark: SparkSession, root: Path) -> Stores:
    return Stores(spark, f"broker-a={root}")


# -- delays -------------------------------------------------------------------------------------------


def keep_delays(keeper: Keeper) -> None:
    keeper.put("orders", UNIQ_KEY="P")
    for number in range(4):  # the first two were delivered
        keeper.delay(3, NOW_MS + number * 10_000, "orders", UNIQ_KEY=f"L{number}", KEYS="k")
    keeper.delay(18, NOW_MS + 2 * HOUR_MS, "audit", UNIQ_KEY="A0")
    keeper.delay(18, NOW_MS + 3 * HOUR_MS, "audit", UNIQ_KEY="A1")
    for number in range(3):  # the first was delivered
        due = str(NOW_MS + number * HOUR_MS)
        names = {"TIMER_OUT_MS": due, "TIMER_DELIVER_MS": due, "REAL_TOPIC": "orders", "UNIQ_KEY": f"T{number}"}
        keeper.put("rmq_sys_wheel_timer", code=int(due), **names)
    for name in ("orders+T2", "A1"):
        recall = {"TIMER_DEL_UNIQKEY": name, "TIMER_OUT_MS": str(NOW_MS + HOUR_MS), "REAL_TOPIC": "orders"}
        keeper.put("rmq_sys_wheel_timer", code=-NOW_MS, **recall)
    keeper.write_config("delayOffset.json", offsetTable={"3": 2})
    keeper.write_config("timerProgress.json", queueOffset=3, deliveredUntil=NOW_MS)
    keeper.write_topics("orders", "audit", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")


def test_delays(spark: SparkSession, tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        keep_delays(keeper)
    stores = stores_of(spark, tmp_path)
    found = {
        (row["topic"], row["level"]): (row["messages"], ms(row["next"]) - NOW_MS, ms(row["last"]) - NOW_MS)
        for row in rows(delays.run(stores, ask()))
    }
    assert found == {
        ("orders", "3"): (2, 20_000, 30_000),
        ("audit", "18"): (1, 2 * HOUR_MS, 2 * HOUR_MS),
        ("orders", "time"): (1, HOUR_MS, HOUR_MS),
    }
    listed = rows(delays.run(stores, ask(by=("message",), topic=("orders",))))
    assert [row["uniq_key"] for row in listed] == ["L2", "L3", "T1"]
    by_time = rows(delays.run(stores, ask(bucket_s=3600)))
    assert [(ms(row["due"]) - NOW_MS, row["topic"], row["messages"]) for row in by_time] == [
        (0, "orders", 2),
        (HOUR_MS, "orders", 1),
        (2 * HOUR_MS, "audit", 1),
    ]


# -- retries ------------------------------------------------------------------------------------------


def keep_retries(keeper: Keeper) -> dict[str, str]:
    """A message that went well at the second attempt, one that is dead, one that waits: all were returned by g1, the
    first one by g2 as well."""
    origins = {}
    for name in ("fine", "dead", "waits"):
        origins[name] = offset_id(keeper.put("orders", UNIQ_KEY=name, KEYS=f"k-{name}"))
    for group, name, times in [("g1", "fine", 2), ("g1", "dead", 3), ("g1", "waits", 1), ("g2", "fine", 1)]:
        common = {"UNIQ_KEY": name, "KEYS": f"k-{name}", "ORIGIN_MESSAGE_ID": origins[name], "RETRY_TOPIC": "orders"}
        for attempt in range(1, times + 1):
            keeper.delay(3, NOW_MS, f"%RETRY%{group}", attempt, **common)
            keeper.put(f"%RETRY%{group}", times=attempt, **common)
        if name == "dead":
            keeper.put(f"%DLQ%{group}", times=4, **common)
        if name == "waits":
            keeper.delay(4, NOW_MS + HOUR_MS, f"%RETRY%{group}", 2, **common)
    keeper.delay(4, NOW_MS + HOUR_MS, "orders", UNIQ_KEY="no retry")
    keeper.write_config("delayOffset.json", offsetTable={"3": 7})
    keeper.write_topics("orders", "SCHEDULE_TOPIC_XXXX", "%RETRY%g1", "%RETRY%g2", "%DLQ%g1")
    keeper.write_config("consumerOffset.json", offsetTable={"orders@g1": {"0": 3}, "orders@g2": {"0": 1}})
    return origins


def test_retries(spark: SparkSession, tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        origins = keep_retries(keeper)
    stores = stores_of(spark, tmp_path)
    first, second = rows(retries.run(stores, ask()))
    assert (first["group"], first["topic"], first["messages"], first["attempts"], first["most"]) == (
        "g1",
        "orders",
        3,
        8,
        4,
    )
    assert (first["delivered"], first["waiting"], first["dead"]) == (1, 1, 1)
    assert ms(first["until"]) == NOW_MS + HOUR_MS
    assert (second["group"], second["messages"], second["attempts"], second["until"]) == ("g2", 1, 1, None)
    chains = rows(retries.run(stores, ask(by=("message",), group=("g1",))))
    assert [(row["uniq_key"], row["state"], row["attempts"], row["origin"]) for row in chains] == [
        ("dead", "dead", 4, origins["dead"]),
        ("waits", "waiting", 2, origins["waits"]),
        ("fine", "delivered", 2, origins["fine"]),
    ]
    assert [row["next"] and ms(row["next"]) for row in chains] == [None, NOW_MS + HOUR_MS, None]


def test_nothing_was_returned(spark: SparkSession, tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        keeper.put("orders")
        keeper.write_topics("orders")
    stores = stores_of(spark, tmp_path)
    assert rows(retries.run(stores, ask())) == []
    assert rows(delays.run(stores, ask())) == []
    assert rows(transactions.run(stores, ask())) == []


# -- transactions -------------------------------------------------------------------------------------


def keep_transactions(keeper: Keeper) -> None:
    def half(name: str, **more: str) -> int:
        names = {"REAL_TOPIC": "orders", "REAL_QID": "0", "TRAN_MSG": "true", "PGROUP": "payers", "UNIQ_KEY": name}
        return keeper.put(HALF, **names, **more).queue_offset

    def end(*offsets: int, comma: str = "") -> None:
        keeper.put(OP, body="".join(f"{each}{comma}" for each in offsets).encode(), TAGS="d")

    end(half("committed"))
    end(half("rolled-back"), half("with-it"), comma=",")
    half("open", KEYS="k")
    asked = half("asked")
    end(asked)  # our broker says so of a half that it stores anew
    half("asked", TRANSACTION_CHECK_TIMES="1")
    half("asked", TRANSACTION_CHECK_TIMES="2")
    half("answered")
    end(half("answered", TRANSACTION_CHECK_TIMES="1"))
    gone = half("given-up")
    keeper.put(GIVEN_UP, REAL_TOPIC="orders", PGROUP="payers", UNIQ_KEY="given-up", TRANSACTION_CHECK_TIMES="15")
    end(gone)
    half("sent-twice")
    end(half("sent-twice"))
    keeper.write_topics("orders", HALF, OP, GIVEN_UP)


def test_transactions(spark: SparkSession, tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        keep_transactions(keeper)
    stores = stores_of(spark, tmp_path)
    result = transactions.run(stores, Ask(now_ms=NOW_MS + 1000 * 1000))
    found = {row["uniq_key"]: (row["state"], row["checks"], row["topic"], row["group"]) for row in rows(result)}
    assert found == {
        "open": ("open", 0, "orders", "payers"),
        "asked": ("open", 2, "orders", "payers"),
        "given-up": ("given up", 15, "orders", "payers"),
        "sent-twice": ("open", 0, "orders", "payers"),
    }
    assert rows(result)[0]["uniq_key"] == "open"
    assert rows(result)[0]["age_s"] == 1000 - 6  # the sixth that was put
    assert list(result.notes) == [
        "3 transactions are open",
        "1 transactions were given up",
        "5 transactions have ended",
    ]
    assert rows(transactions.run(stores, ask(group=("others",)))) == []


# -- trace --------------------------------------------------------------------------------------------


def test_trace(spark: SparkSession, tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        origins = keep_retries(keeper)
        half = keeper.put(HALF, UNIQ_KEY="t", KEYS="pay", REAL_TOPIC="orders", TRAN_MSG="true")
        keeper.put("orders", prepared=half.phys_offset, UNIQ_KEY="t", KEYS="pay", REAL_TOPIC="orders", TRAN_MSG="true")
        keeper.put(OP, body=b"0", TAGS="d")
        keeper.put("orders", UNIQ_KEY="other", KEYS="xpay pay2")
        keeper.put("orders", UNIQ_KEY="second", KEYS="a pay b")
    stores = stores_of(spark, tmp_path)

    def steps(key: str) -> list[str]:
        return [row["step"] for row in rows(trace.run(stores, ask(key=key)))]

    of_dead = ["sent", *[step for n in (1, 2, 3) for step in ("waited", f"retry {n}")], "dead letter"]
    assert steps(origins["dead"]) == of_dead
    assert steps("waits") == ["sent", "waited", "retry 1", "waits"]
    told = rows(trace.run(stores, ask(key="fine")))
    assert told[0]["read_by"] == "g1, g2"
    result = trace.run(stores, ask(key="pay"))
    assert [row["step"] for row in rows(result)] == ["half, done with", "committed", "sent"]
    assert list(result.notes) == ["2 different messages have this key"]
    with pytest.raises(NotFound, match="no message has the key or id nothing"):
        trace.run(stores, ask(key="nothing"))
    with pytest.raises(ConfigError):
        trace.run(stores, ask())


def test_what_is_told_beside_a_trace() -> None:
    copies = [{"uniq_key": key, "msg_id": "m"} for key in ("a", "a", None)]
    assert list(trace.notes(copies[:2], is_cut=False)) == []
    cut, different = trace.notes(copies, is_cut=True)
    assert cut.startswith(f"these are the first {trace.MOST_ROWS} copies")
    assert different == "2 different messages have this key"
