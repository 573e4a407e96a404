"""How far consumer groups are behind, per queue, and which queues nobody reads.

A group is behind by what lies between its offset in config/consumerOffset.json and the end of the queue, which takes a
few reads in the queue's last file: the log is not opened. With `seconds` one record per late queue is read, the one
that the group will get next; the group is behind since that was stored.

As in `mqadmin consumerProgress` a group reads every queue of a topic for which it has any offset, from 0 where it has
none. A running broker writes offsets down every few seconds, so they are a little old. What there is beyond mqadmin's
rows is told by `state`:

    ok          the group goes on where it is
    expired     messages that it had not read were deleted: it goes on with the first that is left
    ahead       the queue ends before the group's offset: messages were lost, or the topic was made anew
    group gone  the group is not in config/subscriptionGroup.json: it was deleted and its offsets were not. A broker
                makes that entry when a group first connects. When a group was last there, no file of a store tells
    topic gone  the topic is not in config/topics.json any more
    unread      no group has an offset for the topic, or the queue is not open for reading. Groups that broadcast keep
                their offsets at the clients and cannot be seen here; dead letters are not expected to be read
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from mqctl.errors import ConfigError, NotFound
from spark.asking import check_topics
from spark.bounds import message_times, queue_bounds
from spark.names import DLQ_PREFIX, is_system_group, is_system_topic
from spark.result import Plot, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.result import Ask
    from spark.stores import Stores

_QUEUE: Final = ["store", "topic", "queue_id"]

# What rows may be put together by, and its column.
BY: Final = {"store": "store", "group": "group", "topic": "topic", "queue": "queue_id", "state": "state"}


def run(stores: Stores, ask: Ask) -> Result:
    """One row per group and queue, the furthest behind first; with `by` one for all queues that agree in it."""
    check_topics(stores, ask)
    _check_groups(stores, ask)
    bounds = queue_bounds(stores, ask.topic).cache()
    found = queues_of_groups(stores, ask, bounds).cache()
    if not ask.group:
        found = found.unionByName(_unread(bounds, ask, found), allowMissingColumns=True)
    found = found.select(
        "store", "group", "topic", "queue_id", "min_offset", "broker_offset", "consumer_offset", "lag", "state"
    )
    if ask.seconds:
        found = _with_seconds(stores, found, ask.now_ms)
    worst = [F.desc("seconds"), F.desc("lag")] if ask.seconds else [F.desc("lag")]
    rows = _together(found, ask) if ask.by else found.drop("min_offset")
    rows = rows.orderBy(*worst, *(name for name in BY.values() if name in rows.columns)).limit(ask.top)
    return Result("Messages not consumed yet", rows, plot=Plot("bars", "topic", "lag", "group", "Messages behind"))


def queues_of_groups(stores: Stores, ask: Ask, bounds: DataFrame) -> DataFrame:
    """What `mqadmin consumerProgress` tells of each group, and the topics that it leaves out since they are gone."""
    committed = _asked(stores.offsets(), ask).cache()
    topics = stores.topics().select("store", "topic", "read_queues")
    groups = stores.groups().select("store", "group", F.lit(True).alias("group_known"))
    read = (
        committed.groupBy("store", "group", "topic")
        .agg(F.collect_set("queue_id").alias("committed"))
        .join(topics, ["store", "topic"], "left")
        .join(groups, ["store", "group"], "left")
        .select("store", "group", "topic", "read_queues", "group_known", F.explode(_queue_ids()).alias("queue_id"))
    )
    return (
        read.join(committed, ["store", "group", "topic", "queue_id"], "left")
        .join(bounds, _QUEUE, "left")
        .withColumn("broker_offset", F.coalesce("max_offset", F.lit(0)))
        .withColumn("consumer_offset", F.greatest(F.coalesce("consumer_offset", F.lit(0)), F.lit(0)))
        .withColumn("lag", F.greatest(F.col("broker_offset") - F.col("consumer_offset"), F.lit(0)))
        .withColumn("state", _state())
    )


def _check_groups(stores: Stores, ask: Ask) -> None:
    known: set[str] = set()
    for folder in stores.folders() if ask.group else ():
        known |= folder.config("subscriptionGroup.json").get("subscriptionGroupTable", {}).keys()
        known |= {name.partition("@")[2] for name in folder.config("consumerOffset.json").get("offsetTable", {})}
    if missing := set(ask.group) - known:
        raise NotFound(f"no store has the group {', '.join(sorted(missing))}")


def _asked(offsets: DataFrame, ask: Ask) -> DataFrame:
    group, topic = F.col("group"), F.col("topic")
    offsets = offsets.where(group.isin(*ask.group) if ask.group else ~is_system_group(group))
    return offsets.where(topic.isin(*ask.topic)) if ask.topic else offsets


def _queue_ids() -> Column:
    """Of a topic that is gone, those that are remembered."""
    queues = F.col("read_queues")
    every = F.sequence(F.lit(0), queues - 1)
    return F.when(queues > 0, every).when(queues.isNull(), F.col("committed")).otherwise(F.array().cast("array<int>"))


def _state() -> Column:
    at = F.col("consumer_offset")
    return (
        F.when(F.col("read_queues").isNull(), "topic gone")
        .when(F.col("group_known").isNull(), "group gone")
        .when(at > F.col("broker_offset"), "ahead")
        .when(at < F.col("min_offset"), "expired")
        .otherwise("ok")
    )


def _unread(bounds: DataFrame, ask: Ask, read: DataFrame) -> DataFrame:
    topic = F.col("topic")
    filled = bounds.where(F.col("max_offset") > F.col("min_offset"))
    if not ask.topic:
        filled = filled.where(~(is_system_topic(topic) | topic.startswith(DLQ_PREFIX)))
    return filled.join(read.select(*_QUEUE), _QUEUE, "left_anti").select(
        *_QUEUE,
        "min_offset",
        F.col("max_offset").alias("broker_offset"),
        (F.col("max_offset") - F.col("min_offset")).alias("lag"),
        F.lit("unread").alias("state"),
    )


def _with_seconds(stores: Stores, found: DataFrame, now_ms: int) -> DataFrame:
    next_offset = F.coalesce("consumer_offset", "min_offset").alias("queue_offset")
    places = found.where("lag > 0").select(*_QUEUE, next_offset).distinct()
    waiting = (F.lit(now_ms) - F.col("store_ms")) / 1000
    times = message_times(stores, places).select(*_QUEUE, "queue_offset", "store_ms")
    return (
        found.withColumn("queue_offset", next_offset)
        .join(times, [*_QUEUE, "queue_offset"], "left")
        .withColumn("seconds", F.when(F.col("lag") == 0, 0.0).otherwise(F.greatest(waiting, F.lit(0.0))))
        .drop("queue_offset", "store_ms")
    )


def _together(found: DataFrame, ask: Ask) -> DataFrame:
    if unknown := set(ask.by) - BY.keys():
        raise ConfigError(f"lag cannot be told by {', '.join(sorted(unknown))}", hint=f"by any of {', '.join(BY)}")
    figures = [F.count("*").alias("queues"), F.sum("lag").alias("lag")]
    if ask.seconds:
        figures.append(F.max("seconds").alias("seconds"))
    return found.groupBy(*(BY[name] for name in ask.by)).agg(*figures)
