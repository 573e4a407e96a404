"""Consume queues against the log: every record has its entry, and every entry leads to its record.

Records and entries of a queue meet by their log offset. Only what does not fit is looked at further, by queue offset:
an entry and a record of the same one, neither of which has met another, are an entry that points elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.store.consumequeue import ENTRY_SIZE
from mqctl.store.javahash import java_hash
from mqctl.store.record import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK
from mqctl.store.scan.queuefiles import Queue
from spark.findings import MOST_FINDINGS, Finding, damage, note

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from spark.stores import Stores

_arrow_udf: Any = arrow_udf  # the kind follows from the function's own types, which Spark's stubs do not know

QUEUE: Final = ("store", "topic", "queue_id")

SYS_INNER_BATCH: Final = 0x80  # 5.x: such records are listed in batchconsumequeue, not here
MAX_EXT_ADDRESS: Final = -(1 << 31) - 1  # tags codes up to this are addresses in consumequeue_ext

# Queues that list records of other topics: a record names them, and has an entry in each.
MULTI_DISPATCH_PREFIX: Final = "%LMQ%"

_ENDS: Final = """
    store STRING, topic STRING, queue_id INT, begin_place BIGINT, begin_offset BIGINT, end_offset BIGINT
"""


def queue_findings(stores: Stores, bounds: DataFrame) -> Iterator[Finding]:
    """`bounds` has store, log_begin, log_end and clean of each store."""
    ends = stores.spark.createDataFrame(list(_ends(stores)), _ENDS)
    both = _records(stores).join(_entries(stores), [*QUEUE, "phys_offset"], "full")
    odd = both.where(~F.coalesce(_fits(), F.lit(False))).persist()
    try:
        yield from _met(odd)
        alone = _alone(odd, F.broadcast(bounds)).persist()
        yield from _astray(alone)
        yield from _missing(stores, alone, ends)
        alone.unpersist()
    finally:
        odd.unpersist()


def _ends(stores: Stores) -> Iterator[tuple[str, str, int, int | None, int, int]]:
    """Per queue the place of its first record, and its first and next offset."""
    for folder in stores.folders():
        log_begin = min((file.start for file in folder.log_files()), default=0)
        for each in folder.queues():
            queue = Queue(folder, each)
            begin = queue.begin(log_begin)
            place = int(queue.entry(begin)["phys_offset"]) if begin < queue.stop else None
            yield folder.name, each.topic, each.queue_id, place, begin, queue.stop


def _records(stores: Stores) -> DataFrame:
    """Those that must be listed in a queue, with the code that their tags have there."""
    messages = stores.messages(*QUEUE, "phys_offset", "queue_offset", "size", "sys_flag", "tags")
    transaction = F.col("sys_flag").bitwiseAND(SYS_TRANSACTION_MASK)
    listed = transaction.isin(0, SYS_TRANSACTION_COMMIT) & (F.col("sys_flag").bitwiseAND(SYS_INNER_BATCH) == 0)
    return messages.where(listed).select(
        *QUEUE,
        "phys_offset",
        F.col("queue_offset").alias("record_offset"),
        F.col("size").alias("record_size"),
        _arrow_udf(_tags_codes, "bigint")("tags").alias("code"),
    )


def _tags_codes(tags: pa.Array) -> pa.Array:
    """Each tag is hashed once, however many messages have it."""
    encoded = tags.dictionary_encode()
    codes = pa.array([java_hash(each) for each in encoded.dictionary.to_pylist()], pa.int64())
    return codes.take(encoded.indices).fill_null(0)


def _entries(stores: Stores) -> DataFrame:
    """The last of those that lead to one place is the record's own; others stand for messages that are lost."""
    entries = stores.queues(*QUEUE, "phys_offset", "queue_offset", "size", "tags_code")
    own = F.max(F.struct("queue_offset", "size", "tags_code")).alias("own")
    return entries.groupBy(*QUEUE, "phys_offset").agg(own).select(*QUEUE, "phys_offset", "own.*")


def _fits() -> Column:
    exempt = F.col("topic").isin(SCHEDULE_TOPIC, TIMER_TOPIC) | (F.col("tags_code") <= MAX_EXT_ADDRESS)
    return (
        (F.col("queue_offset") == F.col("record_offset"))
        & (F.col("size") == F.col("record_size"))
        & (exempt | (F.col("tags_code") == F.col("code")))
    )


# -- entries that meet a record of their queue --------------------------------------------------------


def _met(odd: DataFrame) -> Iterator[Finding]:
    for row in odd.where("size IS NOT NULL AND record_size IS NOT NULL").limit(MOST_FINDINGS).collect():
        place = f"the record at {row['phys_offset']}"
        if row["queue_offset"] != row["record_offset"]:
            named = f"{row['topic']}/{row['queue_id']}@{row['record_offset']}"
            what = f"the queue offset cannot be right; record of {named}, its entry is at {row['queue_offset']}"
            yield damage(row["store"], "commitlog", row["phys_offset"], what)
        elif row["size"] != row["record_size"]:
            yield _entry_damage(row, f"says {row['size']} bytes, {place} has {row['record_size']}")
        else:
            yield _entry_damage(row, f"has tags code {row['tags_code']}, the tag of {place} has {row['code']}")


def _entry_damage(row: Row, what: str) -> Finding:
    at = row["queue_offset"]
    return damage(row["store"], _folder(row), at * ENTRY_SIZE, f"queue offset {at}: {what}")


def _folder(row: Row) -> str:
    return f"consumequeue/{row['topic']}/{row['queue_id']}"


# -- and those that do not ----------------------------------------------------------------------------


def _alone(odd: DataFrame, bounds: DataFrame) -> DataFrame:
    """By queue offset: where its entry points, if that is to no record of the queue, and where the record is that has
    no entry. What was stored after the check began may be in one place only."""
    is_entry = F.col("record_size").isNull()
    known = F.col("phys_offset").between(F.col("log_begin"), F.col("log_end"))
    strays = is_entry & (~known | F.col("topic").startswith(MULTI_DISPATCH_PREFIX))
    return (
        odd.where("size IS NULL OR record_size IS NULL")
        .join(bounds, "store")
        .where(~strays)
        .groupBy(*QUEUE, F.coalesce("queue_offset", "record_offset").alias("queue_offset"), "clean")
        .agg(
            F.max(F.when(is_entry, F.col("phys_offset"))).alias("points_to"),
            F.max(F.when(~is_entry, F.col("phys_offset"))).alias("record_at"),
        )
    )


def _astray(alone: DataFrame) -> Iterator[Finding]:
    for row in alone.where("points_to IS NOT NULL").limit(MOST_FINDINGS).collect():
        there = (
            "where no record of this queue is" if row["record_at"] is None else f"its record is at {row['record_at']}"
        )
        yield _entry_damage(row, f"points to log offset {row['points_to']}, {there}")


def _missing(stores: Stores, alone: DataFrame, ends: DataFrame) -> Iterator[Finding]:
    """Per queue how many records are in no entry, and whether that is as it should be: the topic is gone or was made
    again, or a broker that runs or was killed has yet to add them."""
    topics = {(row["store"], row["topic"]) for row in stores.topics().select("store", "topic").collect()}
    earlier_life = (F.col("begin_offset") == 0) & (F.col("record_at") < F.col("begin_place"))
    counted = (
        alone.where("points_to IS NULL")
        .join(F.broadcast(ends), list(QUEUE), "left")
        .groupBy(*QUEUE, "clean", "end_offset", F.coalesce(earlier_life, F.lit(False)).alias("is_earlier"))
        .agg(F.count("*").alias("count"), F.min("queue_offset").alias("first"))
    )
    for row in counted.collect():
        what = f"{row['count']} entries are missing, from queue offset {row['first']} on"
        still = f"{row['count']} of its records are still in the log"
        if row["end_offset"] is None and (row["store"], row["topic"]) not in topics:
            yield note(row["store"], _folder(row), f"the topic is gone; {still}")
        elif row["is_earlier"]:
            yield note(row["store"], _folder(row), f"the topic was deleted and made again; {still}")
        elif not row["clean"] and row["first"] >= (row["end_offset"] or 0):
            yield note(row["store"], _folder(row), f"{what}: the store is in use or was not closed, a start adds them")
        else:
            yield damage(row["store"], _folder(row), None, what)
