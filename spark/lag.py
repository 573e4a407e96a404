"""How far consumer groups are behind, per queue, and which queues nobody reads.

A group is behind by what lies between its offset in config/consumerOffset.json and the end of the queue, which takes a
few reads in the queue's last file: the log is not opened, unless a store has no queues. With `seconds` one record per
late queue is read, the one that the group will get next; the group is behind since that was stored.

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

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from mqctl.errors import ConfigError, NotFound
from mqctl.names import DLQ_PREFIX, is_system_group
from mqctl.store.scan.bounds import Bounds, QueueBounds
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.schema import TABLES
from mqctl.store.scan.tables import ConfigPart
from spark.asking import check_topics
from spark.names import is_system_topic
from spark.queueless import notes, queueless
from spark.result import Plot, Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark.result import Ask
    from spark.stores import Stores

_SCHEMA: Final = (
    "store string, group string, topic string, queue_id int, broker_offset bigint, consumer_offset bigint, lag bigint, "
    "seconds double, state string"
)

# What rows may be put together by, and its column.
BY: Final = {"store": "store", "group": "group", "topic": "topic", "queue": "queue_id", "state": "state"}

GROUP_GONE: Final = "group gone"
TOPIC_GONE: Final = "topic gone"
UNREAD: Final = "unread"

Row = tuple[Any, ...]
Ends = dict[tuple[str, str, int], QueueBounds]  # by store, topic and queue


class Reader(NamedTuple):
    """A group that reads a queue. `gone` is what is missing, or nothing."""

    group: str
    consumer_offset: int
    gone: str


class Place(NamedTuple):
    """A queue, and the groups that read it."""

    store: str
    topic: str
    queue_id: int
    readers: list[Reader]


def run(stores: Stores, ask: Ask) -> Result:
    """One row per group and queue, the furthest behind first; with `by` one for all queues that agree in it."""
    check_topics(stores, ask)
    _check_groups(stores, ask)
    ends = _ends_in_log(stores, ask)
    places = [place for folder in stores.folders() for place in _places(folder, ends, ask)]
    measure = partial(_measure, stores.folders(), ends, ask.now_ms if ask.seconds else None)
    found = stores.spark.createDataFrame(stores.spark.sparkContext.parallelize(places).mapPartitions(measure), _SCHEMA)
    if ask.by:
        found = _together(found, ask)
    worst = [F.desc("seconds"), F.desc("lag")] if ask.seconds else [F.desc("lag")]
    rows = found.orderBy(*worst, *(name for name in BY.values() if name in found.columns)).limit(ask.top)
    return Result(
        "Messages not consumed yet",
        rows if ask.seconds else rows.drop("seconds"),
        notes(stores, "where they would end was looked up in the log"),
        plot=Plot("bars", "topic", "lag", "group", "Messages behind"),
    )


def _check_groups(stores: Stores, ask: Ask) -> None:
    known = {
        row["group"]
        for folder in stores.folders()
        for table in ("groups", "offsets")
        for row in (_config_rows(folder, table) if ask.group else ())
    }
    if missing := set(ask.group) - known:
        raise NotFound(f"no store has the group {', '.join(sorted(missing))}")


def _config_rows(folder: StoreFolder, table: str) -> Iterator[dict[str, Any]]:
    for batch in ConfigPart(folder, table).batches(TABLES[table].names):
        yield from batch.to_pylist()


def _ends_in_log(stores: Stores, ask: Ask) -> Ends:
    """Of the queues that stores without queues should have."""
    lost = queueless(stores)
    if not lost:
        return {}
    queue = ("store", "topic", "queue_id")
    records = stores.only(*lost).messages(*queue, "queue_offset", topics=ask.topic)
    found = records.groupBy(*queue).agg(F.min("queue_offset"), F.max("queue_offset") + 1).collect()
    return {(store, topic, queue_id): QueueBounds(topic, queue_id, *ends) for store, topic, queue_id, *ends in found}


# -- who reads what: from the config files --------------------------------------------------------------


def _places(folder: StoreFolder, ends: Ends, ask: Ask) -> Iterator[Place]:
    readers = _readers(folder, ask)
    if not ask.group:
        for topic, queue_id in _queues(folder, ends, ask):
            if ask.topic or not (is_system_topic(topic) or topic.startswith(DLQ_PREFIX)):
                readers.setdefault((topic, queue_id), [])
    for (topic, queue_id), groups in readers.items():
        yield Place(folder.name, topic, queue_id, groups)


def _queues(folder: StoreFolder, ends: Ends, ask: Ask) -> Iterator[tuple[str, int]]:
    yield from ((queue.topic, queue.queue_id) for queue in folder.queues(frozenset(ask.topic)))
    yield from ((topic, queue_id) for store, topic, queue_id in ends if store == folder.name)


def _readers(folder: StoreFolder, ask: Ask) -> dict[tuple[str, int], list[Reader]]:
    """By topic and queue."""
    read_queues = {row["topic"]: row["read_queues"] for row in _config_rows(folder, "topics")}
    groups = {row["group"] for row in _config_rows(folder, "groups")}
    found: dict[tuple[str, int], list[Reader]] = defaultdict(list)
    for (group, topic), committed in _committed(folder, ask).items():
        gone = TOPIC_GONE if topic not in read_queues else GROUP_GONE if group not in groups else ""
        for queue_id in range(read_queues[topic]) if topic in read_queues else committed:
            found[topic, queue_id].append(Reader(group, max(0, committed.get(queue_id, 0)), gone))
    return found


def _committed(folder: StoreFolder, ask: Ask) -> dict[tuple[str, str], dict[int, int]]:
    """The offsets of each queue, by group and topic."""
    found: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for row in _config_rows(folder, "offsets"):
        group, topic = row["group"], row["topic"]
        if (group in ask.group if ask.group else not is_system_group(group)) and (not ask.topic or topic in ask.topic):
            found[group, topic][row["queue_id"]] = row["consumer_offset"]
    return found


# -- how far it is: looked up by executors --------------------------------------------------------------


def _measure(folders: list[StoreFolder], ends: Ends, now_ms: int | None, places: Iterable[Place]) -> Iterator[Row]:
    """A queue without readers is unread if there is anything in it."""
    stores = {folder.name: Bounds(folder) for folder in folders}
    for store, topic, queue_id, readers in places:
        bounds = stores[store]
        queue = ends.get((store, topic, queue_id)) or bounds.queue(topic, queue_id)
        for group, at, gone in readers:
            lag = max(0, queue.max_offset - at)
            seconds = _seconds(bounds, queue, at, now_ms) if lag else 0.0
            yield store, group, topic, queue_id, queue.max_offset, at, lag, seconds, gone or _state(queue, at)
        if not readers and queue.max_offset > queue.min_offset:
            lag, seconds = queue.max_offset - queue.min_offset, _seconds(bounds, queue, 0, now_ms)
            yield store, None, topic, queue_id, queue.max_offset, None, lag, seconds, UNREAD


def _state(queue: QueueBounds, consumer_offset: int) -> str:
    if consumer_offset > queue.max_offset:
        return "ahead"
    return "expired" if consumer_offset < queue.min_offset else "ok"


def _seconds(bounds: Bounds, queue: QueueBounds, consumer_offset: int, now_ms: int | None) -> float | None:
    """Since the next message was stored, or the first that is left. None if nobody asks, or it is not there."""
    if now_ms is None:
        return None
    at_ms = bounds.message_stored_at(queue.topic, queue.queue_id, max(consumer_offset, queue.min_offset))
    return max(0.0, (now_ms - at_ms) / 1000) if at_ms is not None else None


def _together(found: DataFrame, ask: Ask) -> DataFrame:
    if unknown := set(ask.by) - BY.keys():
        raise ConfigError(f"lag cannot be told by {', '.join(sorted(unknown))}", hint=f"by any of {', '.join(BY)}")
    figures = [F.count("*").alias("queues"), F.sum("lag").alias("lag"), F.max("seconds").alias("seconds")]
    return found.groupBy(*(BY[name] for name in ask.by)).agg(*figures)
