"""What consumers could not handle: which group, which topic, how often, until when, and what became a dead letter.

Each time a consumer returns a message, the broker stores a copy of it that names the first one (ORIGIN_MESSAGE_ID), its
topic (RETRY_TOPIC) and the number of attempts. The copy waits in SCHEDULE_TOPIC_XXXX, is then delivered as another copy
in `%RETRY%group`, and after too many attempts lies in `%DLQ%group` instead. All copies of one origin are one chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from mqctl.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from spark.asking import check_topics
from spark.delays import waiting_entries
from spark.existing import existing, existing_like
from spark.queueless import notes, queueless
from spark.result import Ask, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.stores import Stores

_COLUMNS: Final = (
    "store", "topic", "queue_id", "queue_offset", "msg_id", "uniq_key", "keys", "store_time", "reconsume_times",
    "properties",
)  # fmt: skip

# Where a chain is, as its last attempt tells. A running broker may have delivered what still looks as if it waited.
STATES: Final = ("waiting", "delivered", "dead")


def run(stores: Stores, ask: Ask) -> Result:
    """One row per group and topic; with `by` "message" one per message, those with the most attempts first."""
    check_topics(stores, ask)
    found = chains(attempts(stores, ask))
    if ask.topic:
        found = found.where(F.col("topic").isin(*ask.topic))
    if ask.group:
        found = found.where(F.col("group").isin(*ask.group))
    told = notes(stores, "when a message comes again is not known")
    if ask.by == ("message",):
        rows = found.orderBy(F.desc("attempts"), F.desc("last"), "origin").limit(ask.top)
        return Result("Retried messages", rows, told)
    return Result("Retries and dead letters", _summary(found), told)


def attempts(stores: Stores, ask: Ask) -> DataFrame:
    """One row per copy that was delivered again, waits for it, or is a dead letter. Copies that have waited are left
    out: what was delivered then is there as well."""
    topics = [*existing(stores, SCHEDULE_TOPIC), *existing_like(stores, RETRY_PREFIX, DLQ_PREFIX)]
    lost = queueless(stores)  # of which groups there are copies, only all of the log tells
    copies = stores.messages(*_COLUMNS, topics=() if lost else topics, since_ms=ask.since_ms, until_ms=ask.until_ms)
    copies = copies if topics or lost else copies.limit(0)  # without topics these would be all messages
    waits = F.col("topic") == SCHEDULE_TOPIC
    target = F.when(waits, _property("REAL_TOPIC")).otherwise(F.col("topic"))
    due = waiting_entries(stores).withColumns({"topic": F.lit(SCHEDULE_TOPIC), "still_waits": F.lit(True)})
    return (
        copies.withColumn("target", target)
        .where(F.col("target").startswith(RETRY_PREFIX) | F.col("target").startswith(DLQ_PREFIX))
        .join(due, ["store", "topic", "queue_id", "queue_offset"], "left")
        .where(~waits | F.col("still_waits"))
        .select(
            F.regexp_extract("target", "^%(?:RETRY|DLQ)%(.*)$", 1).alias("group"),
            F.coalesce(_property("RETRY_TOPIC"), _property("REAL_TOPIC")).alias("topic"),
            F.coalesce(_property("ORIGIN_MESSAGE_ID"), "uniq_key", "msg_id").alias("origin"),
            F.when(F.col("target").startswith(DLQ_PREFIX), 2).when(waits, 0).otherwise(1).alias("state"),
            "uniq_key",
            "keys",
            "reconsume_times",
            "store_time",
            "due",
        )
    )


def chains(copies: DataFrame) -> DataFrame:
    """One row per message and group that returned it. `next` is when the message comes again, if it waits."""
    states = F.array(*(F.lit(state) for state in STATES))
    last = F.max(F.struct("reconsume_times", "state", "store_time", "due", "keys", "uniq_key")).alias("last")
    whole = copies.groupBy("group", "topic", "origin").agg(F.min("store_time").alias("first"), last)
    return whole.select(
        "group",
        "topic",
        F.element_at(states, F.col("last.state") + 1).alias("state"),
        F.col("last.reconsume_times").alias("attempts"),
        "first",
        F.col("last.store_time").alias("last"),
        F.when(F.col("last.state") == 0, F.col("last.due")).alias("next"),
        "last.keys",
        "last.uniq_key",
        "origin",
    )


def _summary(found: DataFrame) -> DataFrame:
    return (
        found.groupBy("group", "topic")
        .agg(
            F.count("*").alias("messages"),
            F.sum("attempts").alias("attempts"),
            F.max("attempts").alias("most"),
            *(F.count_if(F.col("state") == state).alias(state) for state in STATES),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.max("next").alias("until"),
        )
        .orderBy(F.desc("dead"), F.desc("attempts"), "group", "topic")
    )


def _property(name: str) -> Column:
    return F.col("properties")[name]
