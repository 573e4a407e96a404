"""How many messages and bytes there are of each kind, counted where they are read.

Whoever counts needs no more, and to hand a row over to Spark takes several times as long as to read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqctl.store.scan.schema import TIMESTAMP

_SIZE: Final = "size"
_TIME: Final = "store_time"
_SECOND_US: Final = 1_000_000

COUNTS: Final = pa.schema([("messages", pa.int64()), ("bytes", pa.int64())])


def columns_to_count(by: Sequence[str]) -> tuple[str, ...]:
    """What a part must be asked for."""
    return tuple(dict.fromkeys((*by, _SIZE)))


@dataclass(frozen=True, slots=True)
class CountedPart:
    """Instead of the rows of a part, how many are equal in the columns `by`. Each batch is counted for itself, so that
    memory does not grow with the number of kinds: one may come several times. With `every_s`, store times are rounded
    down to multiples of it."""

    part: Any
    by: tuple[str, ...]
    every_s: int | None = None

    def batches(self, asked: Any) -> Iterator[pa.RecordBatch]:
        return map(self._counted, self.part.batches(asked))

    def _counted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.every_s and _TIME in self.by:
            rows = rows.set_column(rows.schema.get_field_index(_TIME), _TIME, self._rounded(rows.column(_TIME)))
        kinds = pa.Table.from_batches([rows]).group_by(list(self.by), use_threads=False)
        found = kinds.aggregate([([], "count_all"), (_SIZE, "sum")]).combine_chunks()
        named = found.select([*self.by, "count_all", "size_sum"]).rename_columns([*self.by, *COUNTS.names])
        (batch,) = named.to_batches()
        return batch

    def _rounded(self, times: pa.TimestampArray) -> pa.TimestampArray:
        step = np.int64((self.every_s or 1) * _SECOND_US)
        return pa.array(times.view(pa.int64()).to_numpy() // step * step).view(TIMESTAMP)
