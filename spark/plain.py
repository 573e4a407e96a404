"""Rows of Spark as values that JSON knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What a column that holds milliseconds since 1970 is called in the list of columns.
TIMESTAMP: Final = "timestamp"


def columns(frame: DataFrame) -> list[tuple[str, str]]:
    """Names and types."""
    return [(each.name, each.dataType.simpleString()) for each in frame.schema.fields]


def rows(frame: DataFrame) -> Iterator[list[Any]]:
    """A timestamp is milliseconds since 1970: as a datetime it would depend on the driver's time zone."""
    exact = [
        F.unix_millis(_named(each.name)) if isinstance(each.dataType, TimestampType) else _named(each.name)
        for each in frame.schema.fields
    ]
    return ([plain(value) for value in row] for row in frame.select(*exact).collect())


def _named(name: str) -> Any:
    return F.col("`" + name.replace("`", "``") + "`")


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: plain(member) for name, member in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
