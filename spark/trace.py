"""The life of a message: every record in the log that is one of its copies, in the order they were stored.

A copy keeps the unique key and the keys of its original, whether it waits for its time, is half a transaction, comes
again to a consumer or is a dead letter. So one look at all records finds them by any of these; an offset message id is
first followed to its record, which has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from mqctl.errors import ConfigError, NotFound
from mqctl.store.record import decode_msg_id
from spark.delays import pending
from spark.names import CHECK_MAX_TOPIC, DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC, TRACE_TOPIC
from spark.result import Ask, Result
from spark.transactions import ended_halves

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.stores import Stores

# A key may be that of many messages; who wants more of them asks with `sql`.
MOST_ROWS: Final = 10_000

_COLUMNS: Final = (
    "store", "topic", "queue_id", "queue_offset", "phys_offset", "store_time", "msg_id", "uniq_key", "keys",
    "reconsume_times", "prepared_offset", "properties",
)  # fmt: skip


def run(stores: Stores, ask: Ask) -> Result:
    """One row per copy. `step` says what it is, `until` when it will be delivered if it waits for that, `read_by` which
    groups have gone past it."""
    if not ask.key:
        raise ConfigError("no key was given", hint="give a key, a unique key (a producer's message id) or an offset id")
    told = (
        _copies(stores, ask)
        .join(pending(stores).select("store", "msg_id", F.col("due").alias("until")), ["store", "msg_id"], "left")
        .join(_ended(stores), ["store", "topic", "queue_id", "queue_offset"], "left")
        .join(F.broadcast(_readers(stores)), ["store", "topic", "queue_id"], "left")
        .select(
            "store_time",
            _step().alias("step"),
            "store",
            "topic",
            "queue_id",
            "queue_offset",
            "until",
            _read_by().alias("read_by"),
            "keys",
            "uniq_key",
            "msg_id",
        )
        .orderBy("store_time", "phys_offset", "store")
        .limit(MOST_ROWS)
    )
    rows = told.collect()
    if not rows:
        raise NotFound(f"no message has the key or id {ask.key}", hint="keys are compared as a whole; case counts")
    messages = len({row["uniq_key"] or row["msg_id"] for row in rows})
    notes = [f"{messages} different messages have this key"] if messages > 1 else []
    return Result(f"The life of {ask.key}", stores.spark.createDataFrame(rows, told.schema), notes)


def _copies(stores: Stores, ask: Ask) -> DataFrame:
    messages = stores.messages(*_COLUMNS, topics=ask.topic, since_ms=ask.since_ms, until_ms=ask.until_ms)
    names = [ask.key, *_unique_keys(stores, ask.key)]
    has_name = F.col("msg_id").isin(*names) | F.col("uniq_key").isin(*names)
    has_key = F.array_contains(F.split("keys", " "), ask.key)
    return messages.where(has_name | has_key | F.col("properties")["ORIGIN_MESSAGE_ID"].isin(*names))


def _unique_keys(stores: Stores, key: str) -> list[str]:
    """Of the record that an offset message id leads to; none where the key is something else."""
    try:
        _, phys_offset = decode_msg_id(key)
    except ValueError:
        return []
    there = stores.messages("msg_id", "uniq_key", from_offset=phys_offset, to_offset=phys_offset + 1)
    return [row["uniq_key"] for row in there.where(F.col("msg_id") == key).collect() if row["uniq_key"]]


def _ended(stores: Stores) -> DataFrame:
    return ended_halves(stores).withColumns({"topic": F.lit(HALF_TOPIC), "is_ended": F.lit(True)})


def _readers(stores: Stores) -> DataFrame:
    """Per queue the groups that have read of it, and how far."""
    return (
        stores.offsets()
        .groupBy("store", "topic", "queue_id")
        .agg(F.sort_array(F.collect_list(F.struct("group", "consumer_offset"))).alias("readers"))
    )


def _read_by() -> Column:
    past = F.filter("readers", lambda reader: reader["consumer_offset"] > F.col("queue_offset"))
    return F.array_join(F.transform(past, lambda reader: reader["group"]), ", ")


def _step() -> Column:
    topic, properties = F.col("topic"), F.col("properties")
    checks = properties["TRANSACTION_CHECK_TIMES"]
    half = F.when(checks.isNull(), "half").otherwise(F.concat(F.lit("half, asked "), checks, F.lit(" times")))
    return (
        F.when(topic == HALF_TOPIC, F.concat(half, F.when(F.col("is_ended"), ", done with").otherwise("")))
        .when(topic == CHECK_MAX_TOPIC, "given up")
        .when(topic.isin(SCHEDULE_TOPIC, TIMER_TOPIC), F.when(F.col("until").isNull(), "waited").otherwise("waits"))
        .when(topic == TRACE_TOPIC, "trace data")
        .when(topic.startswith(DLQ_PREFIX), "dead letter")
        .when(topic.startswith(RETRY_PREFIX), F.concat(F.lit("retry "), F.col("reconsume_times").cast("string")))
        .when(F.col("prepared_offset") > 0, "committed")
        .when(properties["REAL_TOPIC"].isNotNull(), "delivered")
        .otherwise("sent")
    )
