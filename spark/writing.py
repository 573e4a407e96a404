"""A result as files: all of it, or nothing.

Spark writes into a folder beside the target, which gets the target's name when it is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from mqctl.errors import ConfigError, StoreError
from spark.place import Place
from spark.request import staging_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OPTIONS: Final[dict[str, dict[str, str]]] = {
    "parquet": {},
    "json": {"ignoreNullFields": "false"},
    "csv": {"header": "true"},
}


def write(frame: DataFrame, format: str, out: str, run: str) -> None:
    """Raises ConfigError if there is something at `out` already, StoreError if the folder cannot get its name."""
    target, staging = Place(frame.sparkSession, out), Place(frame.sparkSession, staging_name(out, run))
    if target.names():
        raise ConfigError(f"{out} exists already", hint="name a folder that does not, or remove it first")
    try:
        shown = _flat(frame) if format == "csv" else frame
        shown.write.format(format).options(**OPTIONS[format]).save(staging.text)
        target.delete()
        if not staging.rename(target):
            raise StoreError(f"{staging.text} could not be renamed to {out}")
    finally:
        staging.delete()


def _flat(frame: DataFrame) -> DataFrame:
    """CSV knows neither maps nor bytes."""
    return frame.select(*(_flat_column(each.name, each.dataType) for each in frame.schema.fields))


def _flat_column(name: str, kind: DataType) -> Column:
    column = F.col("`" + name.replace("`", "``") + "`")
    if isinstance(kind, (MapType, ArrayType, StructType)):
        return F.to_json(column).alias(name)
    return column.cast("string").alias(name) if isinstance(kind, BinaryType) else column
