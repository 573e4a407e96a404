"""`spark.readStream.format("mqstore")`: the messages of stores that brokers are writing.

An offset of the stream is a place in the log of each store, where a record ends. So a micro-batch is a set of ranges of
the log: read again after a failure, it holds the same messages, and Spark's checkpoint makes that exactly once. A new
query begins with the oldest message, or with what comes (option `start` = latest).

What a broker deletes before a query has come to it is lost to the query, which goes on behind it with a warning. A log
that ends before the query's offset is another one, or was cut off: that ends the query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqctl.errors import StoreError
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import LogPart, LogPlan, split
from spark.parts import PartOf, read_part

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Offsets = dict[str, int]


class MessageStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(
        self,
        stores: list[StoreFolder],
        wanted: Wanted,
        schema: StructType,
        part_bytes: int,
        *,
        latest: bool,
        batch_bytes: int | None,
    ) -> None:
        self._stores = stores
        self._wanted = replace(wanted, from_log=True)
        self._schema = schema
        self._part_bytes = part_bytes
        self._latest = latest
        self._batch_bytes = batch_bytes
        self._target: Offsets | None = None  # of a query that ends with what there is

    def initialOffset(self) -> Offsets:
        plans = {store.name: LogPlan(store) for store in self._stores}
        return {name: plan.end(plan.begin) if self._latest else plan.begin for name, plan in plans.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._batch_bytes is None else ReadMaxBytes(self._batch_bytes)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """A limit holds for each store, and for the bytes of the log, whatever is asked for of them."""
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        plans = {store.name: LogPlan(store) for store in self._stores}
        found = {name: plan.end(going_on(plan, start.get(name, 0)), most) for name, plan in plans.items()}
        return found if self._target is None else {name: min(end, self._target[name]) for name, end in found.items()}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {store.name: LogPlan(store).end(0) for store in self._stores}

    def partitions(self, start: Offsets, end: Offsets) -> list[PartOf]:
        return [
            PartOf(LogPart(store, each))
            for store in self._stores
            if store.name in end
            for each in split(store.log_files(), start.get(store.name, 0), end[store.name], self._part_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(partition, self._wanted, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept here."""


def going_on(plan: LogPlan, reached: int) -> int:
    """Where the log goes on behind the place that a query has come to. Raises StoreError if it does not go so far."""
    if plan.end(0) < reached:
        what = f"{plan.store.name}: the log of {plan.store.root} ends before {reached}, which this query has reached"
        raise StoreError(what, hint="it is another log, or was cut off: begin anew, with another checkpointLocation")
    if 0 < reached < plan.begin:
        log.warning("%s: %d bytes of the log were deleted unread", plan.store.name, plan.begin - reached)
    return max(plan.begin, reached)
