"""What one task of Spark reads."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from spark.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class PartOf(InputPartition):
    """A part of some table, as `mqctl.store.scan` has planned it."""

    part: Any


def read_part(partition: InputPartition, asked: Any, schema: StructType) -> Iterator[pa.RecordBatch]:
    """`asked` is what this kind of part is told: which messages, or which columns."""
    if not isinstance(partition, PartOf):
        return  # where there is no part at all, Spark makes one of its own
    _keep_what_is_loaded()
    expected = arrow_schema(schema)
    for batch in partition.part.batches(asked):
        yield batch if batch.schema.equals(expected) else batch.cast(expected)


@cache
def _keep_what_is_loaded() -> None:
    """A worker of Spark collects garbage after every task. To look through all modules each time takes as long as to
    read a good part of the log, and they stay as long as the worker does."""
    gc.freeze()
