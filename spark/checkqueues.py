"""Consume queues against the log: every record has its entry, and every entry leads to its record.

Records and entries of a queue meet by their log offset. What is left over on either side is looked at by queue offset:
an entry and a record of the same one are an entry that points elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from mqctl.store.consumequeue import ENTRY_SIZE, LOST_SIZE
from mqctl.store.javahash import java_hash
from mqctl.store.record import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK
from spark.names import SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.stores import Stores

QUEUE: Final = ("store", "topic", "queue_id")

SYS_INNER_BATCH: Final = 0x80  # 5.x: such records are listed in batchconsumequeue, not here
MAX_EXT_ADDRESS: Final = -(1 << 31) - 1  # tags codes up to this are addresses in consumequeue_ext

# Queues that list records of other topics: a record names them, and has an entry in each.
MULTI_DISPATCH_PREFIX: Final = "%LMQ%"

_RECORD: Final = """
    store STRING, topic STRING, queue_id INT, phys_offset BIGINT, record_offset BIGINT, record_size INT, code BIGINT
"""


def queue_findings(stores: Stores, bounds: DataFrame) -> DataFrame:
    """`bounds` has store, log_begin, log_end and clean of each store."""
    both = _records(stores).join(_entries(stores), [*QUEUE, "phys_offset"], "full")
    both = both.join(F.broadcast(bounds), "store")
    return _wrong(both).unionByName(_left_over(stores, both))


def _records(stores: Stores) -> DataFrame:
    """Those that must be listed in a queue, with the code that their tags have there."""
    messages = stores.messages(*QUEUE, "phys_offset", "queue_offset", "size", "sys_flag", "tags")
    transaction = F.col("sys_flag").bitwiseAND(SYS_TRANSACTION_MASK)
    listed = transaction.isin(0, SYS_TRANSACTION_COMMIT) & (F.col("sys_flag").bitwiseAND(SYS_INNER_BATCH) == 0)
    wanted = messages.where(listed).select(*QUEUE, "phys_offset", "queue_offset", "size", "tags")
    return wanted.mapInArrow(_with_codes, _RECORD)


def _with_codes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = [*QUEUE, "phys_offset", "record_offset", "record_size", "code"]
    for batch in batches:
        tags = batch.column("tags").dictionary_encode()
        codes = pa.array([java_hash(each) for each in tags.dictionary.to_pylist()], pa.int64()).take(tags.indices)
        yield pa.RecordBatch.from_arrays([*batch.columns[:-1], codes.fill_null(0)], names)


def _entries(stores: Stores) -> DataFrame:
    entries = stores.queues(*QUEUE, "phys_offset", "queue_offset", "size", "tags_code")
    return entries.where(F.col("size") != LOST_SIZE)  # recovery says that such a message is lost


# -- entries that meet a record of their queue --------------------------------------------------------


def _wrong(both: DataFrame) -> DataFrame:
    met = both.where("size IS NOT NULL AND record_size IS NOT NULL")
    # The entry of a later message may stand for one that is lost: its own one is then there as well.
    own = met.groupBy(*QUEUE, "phys_offset", "record_offset").agg(
        F.bool_or(F.col("queue_offset") == F.col("record_offset")).alias("has_own"),
        F.min("queue_offset").alias("queue_offset"),
    )
    place = own.where("NOT has_own").select(
        "store",
        F.lit("damage").alias("severity"),
        F.lit("commitlog").alias("file"),
        F.col("phys_offset").alias("position"),
        F.format_string(
            "the queue offset cannot be right; record of %s/%d@%d, its entry is at %d",
            "topic", "queue_id", "record_offset", "queue_offset",
        ).alias("what"),
    )  # fmt: skip
    is_time = F.col("topic").isin(SCHEDULE_TOPIC, TIMER_TOPIC)
    other_code = (F.col("tags_code") != F.col("code")) & (F.col("tags_code") > MAX_EXT_ADDRESS) & ~is_time
    says_size = F.format_string(
        "queue offset %d: says %d bytes, the record at %d has %d", "queue_offset", "size", "phys_offset", "record_size"
    )
    says_code = F.format_string(
        "queue offset %d: has tags code %d, the tag of the record at %d has %d",
        "queue_offset", "tags_code", "phys_offset", "code",
    )  # fmt: skip
    what = F.when(F.col("size") != F.col("record_size"), says_size).when(other_code, says_code)
    return place.unionByName(_entry_damage(met.withColumn("what", what).where("what IS NOT NULL")))


def _entry_damage(frame: DataFrame) -> DataFrame:
    return frame.select(
        "store",
        F.lit("damage").alias("severity"),
        _folder().alias("file"),
        (F.col("queue_offset") * ENTRY_SIZE).alias("position"),
        "what",
    )


def _folder() -> Column:
    return F.concat(F.lit("consumequeue/"), "topic", F.lit("/"), F.col("queue_id").cast("string"))


# -- and those that do not ----------------------------------------------------------------------------


def _left_over(stores: Stores, both: DataFrame) -> DataFrame:
    dangling = both.where("record_size IS NULL AND phys_offset BETWEEN log_begin AND log_end").where(
        ~F.col("topic").startswith(MULTI_DISPATCH_PREFIX)
    )
    unlisted = both.where("size IS NULL")
    alone = dangling.select(*QUEUE, "queue_offset", F.col("phys_offset").alias("points_to")).join(
        unlisted.select(*QUEUE, F.col("record_offset").alias("queue_offset"), "phys_offset", "clean"),
        [*QUEUE, "queue_offset"],
        "full",
    )
    elsewhere = F.format_string("queue offset %d: points to log offset %d, ", "queue_offset", "points_to")
    leads = F.when(F.col("phys_offset").isNull(), "where no record of this queue is")
    what = F.concat(elsewhere, leads.otherwise(F.format_string("its record is at %d", "phys_offset")))
    led_astray = _entry_damage(alone.where("points_to IS NOT NULL").withColumn("what", what))
    return led_astray.unionByName(_missing(stores, alone.where("points_to IS NULL")))


def _missing(stores: Stores, unlisted: DataFrame) -> DataFrame:
    """Per queue how many records are in no entry, and whether that is as it should be: the topic is gone or was made
    again, or a broker that runs or was killed has yet to add them."""
    ends = stores.queues(*QUEUE, "queue_offset", "phys_offset").groupBy(*QUEUE).agg(
        F.min_by("phys_offset", "queue_offset").alias("begin"),
        F.min("queue_offset").alias("first_offset"),
        F.max("queue_offset").alias("last_offset"),
    )  # fmt: skip
    topics = stores.topics().select("store", "topic", F.lit(True).alias("exists"))
    known = unlisted.join(ends, list(QUEUE), "left").join(F.broadcast(topics), ["store", "topic"], "left")
    earlier_life = (F.col("first_offset") == 0) & (F.col("phys_offset") < F.col("begin"))
    gone = F.col("last_offset").isNull() & F.col("exists").isNull()
    lags = ~F.col("clean") & (F.col("queue_offset") > F.coalesce("last_offset", F.lit(-1)))
    why = F.when(gone, "gone").when(earlier_life, "earlier").when(lags, "lags").otherwise("damage")
    counted = known.groupBy(*QUEUE, why.alias("why")).agg(
        F.count("*").alias("count"), F.min("queue_offset").alias("first")
    )
    missing = F.format_string("%d entries are missing, from queue offset %d on", "count", "first")
    still = F.format_string("; %d of its records are still in the log", "count")
    what = (
        F.when(F.col("why") == "gone", F.concat(F.lit("the topic is gone"), still))
        .when(F.col("why") == "earlier", F.concat(F.lit("the topic was deleted and made again"), still))
        .when(F.col("why") == "lags", F.concat(missing, F.lit(": the store is in use or was not closed")))
        .otherwise(missing)
    )
    severity = F.when(F.col("why") == "damage", "damage").otherwise("note")
    return counted.select(
        "store", severity.alias("severity"), _folder().alias("file"), F.lit(None).cast("bigint").alias("position"),
        what.alias("what"),
    )  # fmt: skip
