"""The tables as Spark knows them; what their columns are stands in `mqctl.store.scan.schema`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import MapType, StructType

from mqctl.store.scan.counts import COUNTS
from mqctl.store.scan.schema import TABLES, narrowed


def table_schema(table: str, columns: Sequence[str] = ()) -> StructType:
    """Of all columns, or of these. Raises an error for a table or a column that there is not."""
    if table not in TABLES:
        raise _wrong(f"there is no table {table}: choose from {', '.join(TABLES)}")
    whole = TABLES[table]
    unknown = [name for name in columns if name not in whole.names]
    if unknown:
        raise _wrong(f"the table {table} has no column {', '.join(unknown)}: it has {', '.join(whole.names)}")
    return from_arrow_schema(narrowed(whole, columns or whole.names))


def counted_schema(table: str, by: Sequence[str]) -> StructType:
    """These columns, messages and bytes. Raises an error where messages cannot be counted by them."""
    if table not in ("messages", "queues"):
        raise _wrong(f"messages are counted in the tables messages and queues, not in {table}")
    found = table_schema(table, by)
    if not by or any(isinstance(field.dataType, MapType) for field in found):
        raise _wrong(f"messages are counted by some columns, and not by properties, so not by {list(by)}")
    return StructType([*found, *from_arrow_schema(COUNTS)])


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark wants the batches to be, down to the names inside a map."""
    return to_arrow_schema(schema, timezone="UTC")


def _wrong(text: str) -> PySparkValueError:
    return PySparkValueError(text)
