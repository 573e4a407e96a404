"""What waits for its time, and when that comes.

Messages with a delay level wait in SCHEDULE_TOPIC_XXXX, one queue for each level, in the order of delivery: those from
the level's offset in delayOffset.json on are pending, and their queue entries hold the time. Messages with a time of
their own wait in rmq_sys_wheel_timer in the order of arrival; `config/timerProgress.json` (this broker) and
`config/timercheck` (Apache's 5.x) say which of them are done with. A message that was taken back is not counted.

A running broker writes those files every few seconds: what it has delivered since still counts as pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from spark.asking import check_topics
from spark.existing import existing
from spark.queueless import notes, queueless
from spark.result import Ask, Plot, Result
from spark.timerprogress import timer_progress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.stores import Stores

BY_TIME: Final = "time"  # what stands for the level of a message that has a time of its own

_PENDING: Final = """
    store STRING, topic STRING, level STRING, due TIMESTAMP, size INT, msg_id STRING, uniq_key STRING, keys STRING
"""
_COLUMNS: Final = ("store", "queue_id", "queue_offset", "size", "msg_id", "uniq_key", "keys", "properties")


def run(stores: Stores, ask: Ask) -> Result:
    """One row per topic and level; with `by` "message" one per message, the next one first; with a bucket one per topic
    and span of time."""
    check_topics(stores, ask)
    found = pending(stores)
    if ask.topic:
        found = found.where(F.col("topic").isin(*ask.topic))
    told = notes(stores, "when messages with a delay level come is not known")
    if ask.by == ("message",):
        return Result("Pending messages", _messages(found, ask), told)
    if ask.bucket_s:
        plot = Plot("bars", "due", "messages", "topic", "Messages that become due")
        return Result("Pending messages by time", _buckets(found, ask.bucket_s), told, plot=plot)
    return Result("Pending messages", _summary(found, ask.now_ms), told)


def pending(stores: Stores) -> DataFrame:
    """store, topic, level, due, size, msg_id, uniq_key, keys of each message that waits."""
    topics = existing(stores, SCHEDULE_TOPIC, TIMER_TOPIC)
    waiting = stores.spark.createDataFrame([], _PENDING)
    if SCHEDULE_TOPIC in topics:
        waiting = waiting.unionByName(_with_level(stores))
    if TIMER_TOPIC not in topics:
        return waiting
    taken_back = _taken_back(stores)
    return (
        waiting.unionByName(_with_time(stores))
        .withColumn("name", F.concat_ws("+", "topic", "uniq_key"))
        .join(taken_back, "name", "left_anti")
        .join(taken_back.withColumnRenamed("name", "uniq_key"), "uniq_key", "left_anti")
        .drop("name")
    )


def waiting_entries(stores: Stores) -> DataFrame:
    """store, queue_id, queue_offset, due of what waits with a delay level. Where there are no queues, `due` is not
    known."""
    entries = stores.queues("store", "queue_id", "queue_offset", "tags_code", topics=[SCHEDULE_TOPIC])
    if lost := queueless(stores):
        messages = stores.only(*lost).messages("store", "queue_id", "queue_offset", topics=[SCHEDULE_TOPIC])
        entries = entries.unionByName(messages.withColumn("tags_code", F.lit(None).cast("bigint")))
    progress = stores.delay_offsets().select(
        "store", (F.col("level") - 1).alias("queue_id"), F.col("queue_offset").alias("next_offset")
    )
    reached = F.coalesce("next_offset", F.lit(0))
    return (
        entries.join(F.broadcast(progress), ["store", "queue_id"], "left")
        .where(F.col("queue_offset") >= reached)
        .select("store", "queue_id", "queue_offset", F.timestamp_millis("tags_code").alias("due"))
    )


def _with_level(stores: Stores) -> DataFrame:
    messages = stores.messages(*_COLUMNS, topics=[SCHEDULE_TOPIC])
    level = (F.col("queue_id") + 1).cast("string")
    return _waiting(messages.join(waiting_entries(stores), ["store", "queue_id", "queue_offset"]), level)


def _with_time(stores: Stores) -> DataFrame:
    messages = stores.messages(*_COLUMNS, "store_time", topics=[TIMER_TOPIC])
    messages = messages.where(_property("TIMER_DEL_UNIQKEY").isNull()).withColumn("due_ms", _due_ms())
    progress = F.broadcast(timer_progress(stores))
    is_done = (
        (messages["store"] == progress["store"])
        & (messages["queue_offset"] < progress["next_offset"])
        & (messages["due_ms"] <= progress["delivered_until"])
    )
    waiting = messages.join(progress, is_done, "left_anti").withColumn("due", F.timestamp_millis("due_ms"))
    return _waiting(waiting, F.lit(BY_TIME))


def _due_ms() -> Column:
    """TIMER_OUT_MS says it. Apache's broker rounds that down to a second, so the sender's own wish counts as well,
    unless the message has been stored again since."""
    stored = F.unix_millis("store_time")
    wish = F.coalesce(
        stored + _number("TIMER_DELAY_SEC") * 1000, stored + _number("TIMER_DELAY_MS"), _number("TIMER_DELIVER_MS")
    )
    wish = F.when(_property("TIMER_ROLL_TIMES").isNull(), wish)
    return F.greatest(_number("TIMER_OUT_MS"), wish)


def _property(name: str) -> Column:
    return F.col("properties")[name]


def _number(name: str) -> Column:
    return _property(name).try_cast("bigint")


def _waiting(messages: DataFrame, level: Column) -> DataFrame:
    topic = _property("REAL_TOPIC").alias("topic")
    return messages.select("store", topic, level.alias("level"), "due", "size", "msg_id", "uniq_key", "keys")


def _taken_back(stores: Stores) -> DataFrame:
    """Names of messages that are not to be delivered: `topic+UNIQ_KEY`, or UNIQ_KEY alone from early 5.x clients."""
    name = _property("TIMER_DEL_UNIQKEY").alias("name")
    return stores.messages("properties", topics=[TIMER_TOPIC]).select(name).where("name IS NOT NULL").distinct()


# -- what is shown ------------------------------------------------------------------------------------


def _summary(found: DataFrame, now_ms: int) -> DataFrame:
    in_s = F.round((F.unix_millis("next") - now_ms) / 1000).cast("bigint")
    return (
        found.groupBy("store", "topic", "level")
        .agg(
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
            F.min("due").alias("next"),
            F.max("due").alias("last"),
        )
        .withColumn("next_in_s", in_s)
        .orderBy("next", "store", "topic", "level")
    )


def _messages(found: DataFrame, ask: Ask) -> DataFrame:
    columns = ("due", "store", "topic", "level", "keys", "uniq_key", "msg_id", "size")
    return found.select(*columns).orderBy("due", "store", "msg_id").limit(ask.top)


def _buckets(found: DataFrame, bucket_s: int) -> DataFrame:
    begin = F.timestamp_seconds(F.floor(F.unix_seconds("due") / bucket_s) * bucket_s)
    return (
        found.groupBy(begin.alias("due"), "topic")
        .agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
        .orderBy("due", "topic")
    )
