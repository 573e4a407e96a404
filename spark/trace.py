"""The life of a message: every record in the log that is one of its copies, in the order they were stored.

A copy keeps the unique key and the keys of its original, whether it waits for its time, is half a transaction, comes
again to a consumer or is a dead letter. So one look at all records finds them by any of these; an offset message id is
first followed to its record, which has them. What the copies then mean is a matter of a few rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from mqctl.errors import ConfigError, NotFound
from mqctl.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TOPIC,
    TRANS_HALF_TOPIC,
)
from mqctl.store.record import decode_msg_id
from spark.asking import check_topics
from spark.delays import pending
from spark.result import Ask, Result
from spark.transactions import ended_halves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, Row

    from spark.stores import Stores

# A key may be that of many messages; who wants more of them asks with `sql`.
MOST_ROWS: Final = 10_000

_COLUMNS: Final = (
    "store", "topic", "queue_id", "queue_offset", "phys_offset", "store_time", "msg_id", "uniq_key", "keys",
    "reconsume_times", "prepared_offset", "properties",
)  # fmt: skip
_ROW: Final = """
    store_time TIMESTAMP, step STRING, store STRING, topic STRING, queue_id INT, queue_offset BIGINT, until TIMESTAMP,
    read_by STRING, keys STRING, uniq_key STRING, msg_id STRING
"""
_WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)

Readers = list[tuple[str, int]]  # groups and their offsets


def run(stores: Stores, ask: Ask) -> Result:
    """One row per copy. `step` says what it is, `until` when it will be delivered if it waits for that, `read_by` which
    groups have gone past it."""
    if not ask.key:
        raise ConfigError("no key was given", hint="give a key, a unique key (a producer's message id) or an offset id")
    check_topics(stores, ask)
    found = _copies(stores, ask).orderBy("store_time", "phys_offset", "store").limit(MOST_ROWS + 1).collect()
    copies = found[:MOST_ROWS]
    if not copies:
        raise NotFound(f"no message has the key or id {ask.key}", hint="keys are compared as a whole; case counts")
    due, ended, readers = _due(stores, copies), _ended(stores, copies), _readers(stores, copies)
    rows = []
    for copy in copies:
        waiting = copy["store"], copy["msg_id"]
        step = _step(copy, waits=waiting in due, is_ended=_place(copy) in ended)
        read_by = [group for group, reached in readers.get(_place(copy)[:3], []) if reached > copy["queue_offset"]]
        told = (copy["store_time"], step, *_place(copy), due.get(waiting), ", ".join(read_by))
        rows.append((*told, copy["keys"], copy["uniq_key"], copy["msg_id"]))
    beside = list(notes(copies, is_cut=len(found) > MOST_ROWS))
    return Result(f"The life of {ask.key}", stores.spark.createDataFrame(rows, _ROW), beside)


def notes(copies: Sequence[Mapping[str, Any] | Row], *, is_cut: bool) -> Iterator[str]:
    messages = len({copy["uniq_key"] or copy["msg_id"] for copy in copies})
    if is_cut:
        yield f"these are the first {MOST_ROWS} copies; `sql` finds all, --from and --to bound the time"
    if messages > 1:
        yield f"{messages} different messages have this key"


def _place(copy: Row) -> tuple[Any, ...]:
    return copy["store"], copy["topic"], copy["queue_id"], copy["queue_offset"]


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


# -- what is known about them elsewhere ---------------------------------------------------------------


def _due(stores: Stores, copies: list[Row]) -> Mapping[tuple[str, str], datetime | None]:
    """When those that still wait are delivered, by store and id; None where only lost queues knew it."""
    waiting = [copy["msg_id"] for copy in copies if copy["topic"] in _WAITING_TOPICS]
    if not waiting:
        return {}
    found = pending(stores).where(F.col("msg_id").isin(*waiting)).select("store", "msg_id", "due").collect()
    return {(row["store"], row["msg_id"]): row["due"] for row in found}


def _ended(stores: Stores, copies: list[Row]) -> set[tuple[Any, ...]]:
    """The places of halves that need no answer any more."""
    halves = [copy["queue_offset"] for copy in copies if copy["topic"] == TRANS_HALF_TOPIC]
    if not halves:
        return set()
    found = ended_halves(stores).where(F.col("queue_offset").isin(*halves)).collect()
    return {(row["store"], TRANS_HALF_TOPIC, row["queue_id"], row["queue_offset"]) for row in found}


def _readers(stores: Stores, copies: list[Row]) -> dict[tuple[Any, ...], Readers]:
    """Per queue the groups that have read of it, and how far."""
    readers: dict[tuple[Any, ...], Readers] = {}
    of_topics = F.col("topic").isin(*{copy["topic"] for copy in copies})
    for row in stores.offsets().where(of_topics).orderBy("group").collect():
        queue = row["store"], row["topic"], row["queue_id"]
        readers.setdefault(queue, []).append((row["group"], row["consumer_offset"]))
    return readers


def _step(copy: Row, *, waits: bool, is_ended: bool) -> str:
    topic, properties = copy["topic"], copy["properties"]
    if topic == TRANS_HALF_TOPIC:
        checks = properties.get("TRANSACTION_CHECK_TIMES")
        half = f"half, asked {checks} times" if checks else "half"
        return f"{half}, done with" if is_ended else half
    if topic in _WAITING_TOPICS:
        return "waits" if waits else "waited"
    if topic.startswith(RETRY_PREFIX):
        return f"retry {copy['reconsume_times']}"
    if topic.startswith(DLQ_PREFIX):
        return "dead letter"
    if topic in _NAMED:
        return _NAMED[topic]
    if copy["prepared_offset"] > 0:
        return "committed"
    return "delivered" if "REAL_TOPIC" in properties else "sent"


_NAMED: Final = {TRANS_CHECK_MAX_TOPIC: "given up", TRACE_TOPIC: "trace data"}
