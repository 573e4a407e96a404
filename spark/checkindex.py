"""The key index against the log: every key is filed, and every entry leads to a message with such a key.

Keys of the log and entries of the index meet by log offset and hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from mqctl.store.keyhash import key_hashes
from mqctl.store.record import SYS_TRANSACTION_MASK, SYS_TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark.stores import Stores

_KEY: Final = ("store", "phys_offset", "key_hash")
_FILED: Final = "store STRING, phys_offset BIGINT, key_hash INT, required BOOLEAN"


def index_findings(stores: Stores, bounds: DataFrame) -> DataFrame:
    """`bounds` has store, log_begin, log_end and clean of each store."""
    entries = stores.index().select(*_KEY, "file", "entry")
    both = _filed(stores).join(entries, list(_KEY), "full").join(F.broadcast(bounds), "store")
    return _dangling(both).unionByName(_missing(stores, both))


def _filed(stores: Stores) -> DataFrame:
    """Hashes of all keys. Those of tags are not required: only 5.5 brokers file messages under them."""
    rolled_back = F.col("sys_flag").bitwiseAND(SYS_TRANSACTION_MASK) == SYS_TRANSACTION_ROLLBACK
    messages = stores.messages("store", "phys_offset", "topic", "sys_flag", "tags", "keys", "uniq_key")
    split = F.array_compact(F.split("keys", " "))
    keys = F.filter(F.concat(F.array("uniq_key"), F.coalesce(split, F.array())), lambda key: key != "")
    tagged = F.concat(F.lit("T#"), "tags")
    named = messages.where(~rolled_back)
    required = named.select(
        "store", "phys_offset", "topic", F.explode(keys).alias("key"), F.lit(True).alias("required")
    )
    optional = named.where("tags IS NOT NULL").select(
        "store", "phys_offset", "topic", tagged.alias("key"), F.lit(False).alias("required")
    )
    hashed = required.unionByName(optional).mapInArrow(_with_hashes, _FILED)
    return hashed.groupBy(*_KEY).agg(F.bool_or("required").alias("required"))


def _with_hashes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        topics, keys = (batch.column(name).to_pylist() for name in ("topic", "key"))
        columns = [
            batch.column("store"),
            batch.column("phys_offset"),
            pa.array(key_hashes(topics, keys)),
            batch.column("required"),
        ]
        yield pa.RecordBatch.from_arrays(columns, [*_KEY, "required"])


def _dangling(both: DataFrame) -> DataFrame:
    entries = both.where("required IS NULL AND phys_offset BETWEEN log_begin AND log_end")
    what = F.format_string(
        "entry %d: leads to log offset %d, where no message with such a key is", "entry", "phys_offset"
    )
    return entries.select(
        "store",
        F.lit("damage").alias("severity"),
        F.concat(F.lit("index/"), "file").alias("file"),
        F.lit(None).cast("bigint").alias("position"),
        what.alias("what"),
    )


def _missing(stores: Stores, both: DataFrame) -> DataFrame:
    """Per store how many keys cannot be found, and whether that is as it should be."""
    ends = (
        stores.index()
        .groupBy("store")
        .agg(F.min("phys_offset").alias("index_begin"), F.max("phys_offset").alias("index_end"))
    )
    absent = both.where("required AND entry IS NULL").join(F.broadcast(ends), "store", "left")
    before = F.col("phys_offset") <= F.col("index_begin")
    lags = ~F.col("clean") & (F.col("phys_offset") >= F.col("index_end"))
    why = F.when(F.col("index_end").isNull(), "none").when(before, "before").when(lags, "lags").otherwise("damage")
    counted = absent.groupBy("store", why.alias("why")).agg(
        F.count("*").alias("count"), F.min("phys_offset").alias("first")
    )
    missing = F.format_string("%d keys are not filed, from the message at %d on", "count", "first")
    what = (
        F.when(F.col("why") == "none", F.format_string("there is no index; %d keys are in the log", "count"))
        .when(F.col("why") == "before", F.concat(missing, F.lit(": Apache's broker leaves it so after a kill")))
        .when(F.col("why") == "lags", F.concat(missing, F.lit(": the store is in use or was not closed")))
        .otherwise(missing)
    )
    return counted.select(
        "store",
        F.when(F.col("why") == "damage", "damage").otherwise("note").alias("severity"),
        F.lit("index").alias("file"),
        F.lit(None).cast("bigint").alias("position"),
        what.alias("what"),
    )
