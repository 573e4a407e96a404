"""`spark.read.format("mqstore")`: the tables of one store or many as data frames.

    option        of            means
    stores        all           which stores; see `mqctl.store.scan.locate`
    table         all           messages (default), queues, index, offsets, topics, groups, delay_offsets
    columns       all           a,b,c: only these, in this order
    topics        messages,     a,b,c: what the consume queues of these topics lead to
    queue         queues        its number
    since_ms, until_ms          messages: stored from then on; before then
    from_offset, to_offset      messages: in this range of the log
    body          messages      none (default), head:N, full
    counted       messages,     true: instead of rows, messages and bytes of each kind by `columns`. A kind may come
                  queues        several times: add them up
    every_s       if counted    store times rounded down to multiples of so many seconds
    part_bytes    messages      how much of the log one task reads
    start         a stream      earliest (default) or latest: where a new query begins
    batch_bytes   a stream      how much of each log one micro-batch reads at most

Spark tells a Python source neither which columns a query needs nor, unless told to, what it filters by. So these are
options, and what they leave out is not read. To take a query's own filters (`pushFilters`) would give wrong rows: Spark
4.3 keeps what was planned with them in the data frame (`PythonDataSourceV2.setReadInfo`), and any other query of that
frame, or the other side of a union with itself, reads by them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkValueError
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mqctl.store.scan.counts import CountedPart, columns_to_count
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.indexes import index_parts
from mqctl.store.scan.locate import locate
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import PART_BYTES, message_parts
from mqctl.store.scan.tables import ConfigPart, queue_parts
from spark.parts import PartOf, read_part
from spark.schema import counted_schema, table_schema

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "mqstore"


class StoreSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return counted_schema(self._table, self._columns) if self._counted else table_schema(self._table, self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        wanted = self._wanted(columns_to_count(self._columns) if self._counted else schema.names)
        counted = partial(CountedPart, by=self._columns, every_s=self._number("every_s")) if self._counted else None
        return StoreReader(self._table, self._stores(), wanted, schema, self._part_bytes, counted)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self._table != "messages" or self._counted:
            raise PySparkValueError(f"only messages can be followed, not {'counts' if self._counted else self._table}")
        from spark.stream import MessageStream  # what it is made of came with Spark 4.2

        return MessageStream(
            self._stores(),
            self._wanted(schema.names),
            schema,
            self._part_bytes,
            latest=self.options.get("start", "earliest") == "latest",
            batch_bytes=self._number("batch_bytes"),
        )

    @property
    def _table(self) -> str:
        return self.options.get("table", "messages")

    @property
    def _columns(self) -> tuple[str, ...]:
        return _words(self.options.get("columns", ""))

    @property
    def _counted(self) -> bool:
        return self.options.get("counted", "").lower() == "true"

    @property
    def _part_bytes(self) -> int:
        return self._number("part_bytes") or PART_BYTES

    def _stores(self) -> list[StoreFolder]:
        return locate(self.options.get("stores") or self.options.get("path") or "")

    def _wanted(self, columns: Iterable[str]) -> Wanted:
        return Wanted(
            columns=tuple(columns),
            topics=frozenset(_words(self.options.get("topics", ""))),
            queue_id=self._number("queue"),
            since_ms=self._number("since_ms"),
            until_ms=self._number("until_ms"),
            from_offset=self._number("from_offset"),
            to_offset=self._number("to_offset"),
        ).with_body(self.options.get("body", "none"))

    def _number(self, option: str) -> int | None:
        text = self.options.get(option, "")
        try:
            return int(text) if text else None
        except ValueError:
            raise PySparkValueError(f"the option {option} is a number, not {text!r}") from None


class StoreReader(DataSourceReader):
    def __init__(
        self,
        table: str,
        stores: list[StoreFolder],
        wanted: Wanted,
        schema: StructType,
        part_bytes: int,
        counted: Callable[[Any], CountedPart] | None,
    ) -> None:
        self._table = table
        self._stores = stores
        self._wanted = wanted
        self._schema = schema
        self._part_bytes = part_bytes
        self._counted = counted

    def partitions(self) -> list[PartOf]:
        parts = [part for store in self._stores for part in self._parts(store)]
        return [PartOf(part if self._counted is None else self._counted(part)) for part in parts]

    def _parts(self, store: StoreFolder) -> Iterable[Any]:
        if self._table == "messages":
            return message_parts(store, self._wanted, self._part_bytes)
        if self._table == "queues":
            return queue_parts(store, self._wanted.topics, self._wanted.queue_id)
        if self._table == "index":
            return index_parts(store)
        return [ConfigPart(store, self._table)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(partition, self._wanted if self._table == "messages" else self._wanted.columns, self._schema)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
