"""The key index against the log: every key is filed, and every entry leads to a message with such a key.

Keys of the log and entries of the index meet by log offset and hash; only what is left over is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from mqctl.store.indexfile import FIRST_ENTRY, HEADER, Header
from mqctl.store.keyhash import key_hashes
from mqctl.store.record import SYS_TRANSACTION_MASK, SYS_TRANSACTION_ROLLBACK
from spark.findings import MOST_FINDINGS, Finding, damage, note

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from spark.stores import Stores

_arrow_udf: Any = arrow_udf  # the kind follows from the function's own types, which Spark's stubs do not know

_KEY: Final = ("store", "phys_offset", "key_hash")


def index_findings(stores: Stores, bounds: DataFrame) -> Iterator[Finding]:
    """`bounds` has store, log_begin, log_end and clean of each store."""
    ends = stores.spark.createDataFrame(_ends(stores), "store STRING, index_begin BIGINT, index_end BIGINT")
    entries = stores.index().select(*_KEY, "file", "entry")
    both = _filed(stores).join(entries, list(_KEY), "full")
    odd = (
        both.where("required IS NULL OR (required AND entry IS NULL)")
        .join(F.broadcast(bounds), "store")
        .join(F.broadcast(ends), "store", "left")
        .persist()
    )
    try:
        yield from _dangling(odd.where("required IS NULL AND phys_offset BETWEEN log_begin AND log_end"))
        yield from _missing(odd.where("required"))
    finally:
        odd.unpersist()


def _ends(stores: Stores) -> list[tuple[str, int, int]]:
    """Where in the log the first and the last entry of each store's index lead, as the files' heads tell."""
    found = []
    for folder in stores.folders():
        heads = [folder.storage.read(file.path, 0, HEADER.size) for file in folder.index_files()]
        used = [Header(*HEADER.unpack(head)) for head in heads if len(head) == HEADER.size]
        used = [head for head in used if head.next_entry > FIRST_ENTRY]
        if used:
            begin, end = min(head.begin_phys_offset for head in used), max(head.end_phys_offset for head in used)
            found.append((folder.name, begin, end))
    return found


def _filed(stores: Stores) -> DataFrame:
    """Hashes of all keys. Those of tags are not required: only 5.5 brokers file messages under them."""
    messages = stores.messages("store", "phys_offset", "topic", "sys_flag", "tags", "keys", "uniq_key")
    rolled_back = F.col("sys_flag").bitwiseAND(SYS_TRANSACTION_MASK) == SYS_TRANSACTION_ROLLBACK
    keys = F.transform(F.split("keys", " "), lambda key: _key(key, required=True))
    own = F.array(_key(F.col("uniq_key"), required=True), _key(F.concat(F.lit("T#"), "tags"), required=False))
    named = F.explode(F.concat(own, F.coalesce(keys, F.array().cast(_KEYS))))
    each = messages.where(~rolled_back).select("store", "phys_offset", "topic", named.alias("named"))
    each = each.where("named.key != ''").select(
        "store",
        "phys_offset",
        _arrow_udf(_hashes, "int")("topic", "named.key").alias("key_hash"),
        "named.required",
    )
    return each.groupBy(*_KEY).agg(F.bool_or("required").alias("required"))


_KEYS: Final = "array<struct<key: string, required: boolean>>"


def _key(key: Column, *, required: bool) -> Column:
    return F.struct(key.alias("key"), F.lit(required).alias("required"))


def _hashes(topics: pa.Array, keys: pa.Array) -> pa.Array:
    return pa.array(key_hashes(topics.to_pylist(), keys.to_pylist()))


def _dangling(odd: DataFrame) -> Iterator[Finding]:
    for row in odd.limit(MOST_FINDINGS).collect():
        what = f"entry {row['entry']}: leads to log offset {row['phys_offset']}, where no message with such a key is"
        yield damage(row["store"], f"index/{row['file']}", None, what)


def _missing(odd: DataFrame) -> Iterator[Finding]:
    """Per store how many keys cannot be found, before the index begins, within it and behind its end."""
    part = F.when(F.col("phys_offset") <= F.col("index_begin"), "before")
    part = part.when(F.col("phys_offset") >= F.col("index_end"), "behind").otherwise("within").alias("part")
    counted = odd.groupBy("store", "clean", F.col("index_end").isNull().alias("is_none"), part).agg(
        F.count("*").alias("count"), F.min("phys_offset").alias("first")
    )
    for row in counted.collect():
        yield _missing_finding(row)


def _missing_finding(row: Row) -> Finding:
    what = f"{row['count']} keys are not filed, from the message at {row['first']} on"
    if row["is_none"]:
        return note(row["store"], "index", f"there is no index; {row['count']} keys are in the log")
    if row["part"] == "before":
        return note(row["store"], "index", f"{what}: Apache's broker leaves it so after a kill")
    if row["part"] == "behind" and not row["clean"]:
        return note(row["store"], "index", f"{what}: the store is in use or was not closed, a start adds them")
    return damage(row["store"], "index", None, what)
