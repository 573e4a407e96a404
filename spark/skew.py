"""Which queues and brokers get more or fewer messages than their share.

Even is what producers do that take queues in turn: as many messages in each queue of a topic, so as many on each broker
as it has queues. The entries of the consume queues are counted, the log is not read. Rows are of one `level`:

    queue    one queue of a topic: a hash of few or unequal keys shows here
    topic    what one broker holds of a topic: a broker that was away, or slow, has less
    broker   what it holds of all topics

The last two are there when there are several stores. Queues that are open for writing and hold nothing count as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark.asking import entries_asked, of_users
from spark.result import Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.result import Ask
    from spark.stores import Stores

# From how many times its share on, and down to how much of it, something is called heavy or light.
HEAVY: Final = 1.5
LIGHT: Final = 0.5

_QUEUE: Final = ["store", "topic", "queue_id"]
_COUNTS: Final = ("messages", "bytes", "share")


def run(stores: Stores, ask: Ask) -> Result:
    """What is furthest from its share first, in messages: little topics are uneven by chance."""
    queues = _queues(stores, ask)
    levels = [("queue", queues)]
    if len(stores.folders()) > 1:
        levels += [("topic", _summed(queues, "store", "topic")), ("broker", _summed(queues, "store"))]
    found = [frame.withColumn("level", F.lit(level)) for level, frame in levels]
    rows = found[0]
    for each in found[1:]:
        rows = rows.unionByName(each, allowMissingColumns=True)
    excess = F.col("messages") - F.col("share")
    frame = (
        rows.withColumn("times", F.round(F.col("messages") / F.col("share"), 2))
        .orderBy(F.desc(F.abs(excess)), "level", *_QUEUE)
        .limit(ask.top)
        .select(
            "level", *_QUEUE, "messages", "bytes", F.round("share", 1).alias("share"), "times", _state().alias("state")
        )
    )
    return Result("Messages beside an even share", frame)


def _queues(stores: Stores, ask: Ask) -> DataFrame:
    """messages, bytes and `share` of each queue of each topic that has any message."""
    entries = of_users(entries_asked(stores, ask, *_QUEUE, counted=True), ask)
    counted = entries.groupBy(*_QUEUE).agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    writable = stores.topics().where("write_queues > 0 and (perm & 2) != 0")
    known = writable.select(
        "store", "topic", F.explode(F.sequence(F.lit(0), F.col("write_queues") - 1)).alias("queue_id")
    )
    of_topic = Window.partitionBy("topic")
    return (
        known.join(counted, _QUEUE, "full")
        .fillna(0, ["messages", "bytes"])
        .withColumn("share", F.sum("messages").over(of_topic) / F.count("*").over(of_topic))
        .where("share > 0")
    )


def _summed(queues: DataFrame, *by: str) -> DataFrame:
    return queues.groupBy(*by).agg(*(F.sum(name).alias(name) for name in _COUNTS))


def _state() -> Column:
    times = F.col("times")
    return F.when(times >= HEAVY, "heavy").when(times <= LIGHT, "light").otherwise("even")
