"""Transactions without an end: how old they are, and how often their producers were asked.

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC. Its end is an op message with its queue offset as the body (5.x puts
several there, each followed by a comma). Each question to the producer stores the half anew, with a higher
TRANSACTION_CHECK_TIMES, and this broker then writes an op message for the earlier one: the newest copy is the one that
counts. When it lies in TRANS_CHECK_MAX_TIME_TOPIC, the transaction was given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from mqctl.names import TRANS_CHECK_MAX_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_TOPIC
from spark.asking import check_topics
from spark.existing import existing
from spark.result import Ask, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.stores import Stores

_COLUMNS: Final = (
    "store", "topic", "queue_id", "queue_offset", "phys_offset", "msg_id", "uniq_key", "keys", "born_time",
    "properties",
)  # fmt: skip

_ROW: Final = """
    store STRING, topic STRING, `group` STRING, state STRING, born_time TIMESTAMP, age_s BIGINT, checks BIGINT,
    keys STRING, uniq_key STRING, msg_id STRING
"""
_SAID: Final = {"open": "are open", "given up": "were given up", "ended": "have ended"}


def run(stores: Stores, ask: Ask) -> Result:
    """One row per transaction that is open or was given up, the oldest first."""
    check_topics(stores, ask)
    if not existing(stores, TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TOPIC):
        return Result("Transactions without an end", stores.spark.createDataFrame([], _ROW), ["there are none at all"])
    found = transactions(stores)
    if ask.topic:
        found = found.where(F.col("topic").isin(*ask.topic))
    if ask.group:
        found = found.where(F.col("group").isin(*ask.group))
    states = {row["state"]: row["count"] for row in found.groupBy("state").count().collect()}
    age_s = F.floor((F.lit(ask.now_ms) - F.unix_millis("born_time")) / 1000).alias("age_s")
    rows = (
        found.where("state != 'ended'")
        .select("store", "topic", "group", "state", "born_time", age_s, "checks", "keys", "uniq_key", "msg_id")
        .orderBy("born_time", "store", "uniq_key")
        .limit(ask.top)
    )
    notes = [f"{states.get(state, 0)} transactions {said}" for state, said in _SAID.items()]
    return Result("Transactions without an end", rows, notes)


def transactions(stores: Stores) -> DataFrame:
    """Each transaction of which a half is still in the log; `state` is one of those above."""
    ended = ended_halves(stores).withColumn("is_ended", F.lit(True))
    newest = _newest(stores.messages(*_COLUMNS, topics=existing(stores, TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TOPIC)))
    # A copy made during the time without questions names the half it stands for, which may be ended instead of it.
    asked_first = ended.withColumnsRenamed({"queue_offset": "original", "is_ended": "original_ended"})
    known = newest.join(ended, ["store", "queue_id", "queue_offset"], "left").join(
        asked_first, ["store", "queue_id", "original"], "left"
    )
    state = (
        F.when(F.col("topic") == TRANS_CHECK_MAX_TOPIC, "given up")
        .when(F.col("is_ended") | F.col("original_ended"), "ended")
        .otherwise("open")
    )
    return known.select(
        "store",
        _property("REAL_TOPIC").alias("topic"),
        _property("PGROUP").alias("group"),
        state.alias("state"),
        F.coalesce(_number("TRANSACTION_CHECK_TIMES"), F.lit(0)).alias("checks"),
        "born_time",
        "keys",
        "uniq_key",
        "msg_id",
    )


def ended_halves(stores: Stores) -> DataFrame:
    """store, queue_id, queue_offset of each half that an op message names."""
    ops = stores.messages("store", "queue_id", "tags", "body", topics=[TRANS_OP_TOPIC], body="full").where("tags = 'd'")
    ops = ops if existing(stores, TRANS_OP_TOPIC) else ops.limit(0)
    named = ops.select("store", "queue_id", F.explode(F.split(F.col("body").cast("string"), ",")).alias("named"))
    return (
        named.select("store", "queue_id", F.col("named").try_cast("bigint").alias("queue_offset"))
        .where("queue_offset IS NOT NULL")
        .distinct()
    )


def _newest(halves: DataFrame) -> DataFrame:
    """The last copy of each. One without a count of questions begins a transaction, even if its unique key was there
    before: a producer that sends again after a time-out leaves two halves."""
    original = _number("TRAN_PREPARED_QUEUE_OFFSET")
    begins = original.isNull() & _number("TRANSACTION_CHECK_TIMES").isNull()
    along = Window.partitionBy("store", "identity").orderBy("phys_offset")
    numbered = halves.withColumns(
        {"original": original, "identity": F.coalesce("uniq_key", original.cast("string"), "msg_id")}
    ).withColumn("begun", F.sum(begins.cast("int")).over(along))
    backwards = Window.partitionBy("store", "identity", "begun").orderBy(F.desc("phys_offset"))
    return numbered.withColumn("age", F.row_number().over(backwards)).where("age = 1")


def _property(name: str) -> Column:
    return F.col("properties")[name]


def _number(name: str) -> Column:
    return _property(name).try_cast("bigint")
