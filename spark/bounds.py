"""The ends of queues and the times of single messages, looked up by executors: no table is read through for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mqctl.store.scan.bounds import Bounds
from mqctl.store.scan.folder import StoreFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark.stores import Stores

BOUNDS: Final = "store string, topic string, queue_id int, min_offset bigint, max_offset bigint"
TIMES: Final = "store string, topic string, queue_id int, queue_offset bigint, store_ms bigint"

Row = tuple[Any, ...]


def queue_bounds(stores: Stores, topics: Sequence[str] = ()) -> DataFrame:
    """`BOUNDS` of each queue that has files, of these topics or of all."""
    queues = [
        (folder.name, queue.topic, queue.queue_id)
        for folder in stores.folders()
        for queue in folder.queues(frozenset(topics))
    ]
    found = stores.spark.sparkContext.parallelize(queues).mapPartitions(partial(_find_bounds, stores.folders()))
    return stores.spark.createDataFrame(found, BOUNDS)


def message_times(stores: Stores, places: DataFrame) -> DataFrame:
    """`TIMES` of messages given by store, topic, queue_id and queue_offset: one entry and one record is read for each.
    The time is that of the first message left if the one asked for was deleted, and null if there is none."""
    wanted = places.select("store", "topic", "queue_id", "queue_offset")
    return stores.spark.createDataFrame(wanted.rdd.mapPartitions(partial(_find_times, stores.folders())), TIMES)


def _find_bounds(folders: list[StoreFolder], queues: Iterable[Row]) -> Iterator[Row]:
    stores = {folder.name: Bounds(folder) for folder in folders}
    for store, topic, queue_id in queues:
        queue = stores[store].queue(topic, queue_id)
        yield store, topic, queue_id, queue.min_offset, queue.max_offset


def _find_times(folders: list[StoreFolder], places: Iterable[Row]) -> Iterator[Row]:
    stores = {folder.name: Bounds(folder) for folder in folders}
    for store, topic, queue_id, queue_offset in places:
        yield store, topic, queue_id, queue_offset, stores[store].message_stored_at(topic, queue_id, queue_offset)
