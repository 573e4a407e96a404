"""Messages as Parquet, partitioned by topic and day (UTC, of the store time). A second run adds only what is new.

    OUT/run=000001/topic=orders/day=2026-11-18/part-....parquet
    OUT/run=000001/_progress.json       how far the runs up to this one have come in the log of each store
    OUT/run=000002/...

A run writes into a folder that readers pass over, gives it its name when all is written, and its progress last. One
that was killed leaves a folder that readers pass over, or one without progress, and the next run removes either. Where
renaming a folder is not one step, as in object stores, readers who want whole runs only take those that have progress.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqctl.errors import ConfigError, StoreError
from mqctl.store.scan.schema import MESSAGES
from spark.onlyone import only_one
from spark.place import Place
from spark.result import Ask, Result
from spark.stores import Stores

STAGING: Final = "_unfinished-"  # one for each run: tasks of one that was killed may still be writing
PROGRESS: Final = "_progress.json"
RUN: Final = "run="
RUN_DIGITS: Final = 6

# Of what a run has written, as far as that is read again.
_SCHEMA: Final = "store STRING, phys_offset BIGINT, size INT, store_time TIMESTAMP, topic STRING, day DATE"


def run(stores: Stores, ask: Ask) -> Result:
    """One row per topic and day that got new messages."""
    if not ask.out:
        raise ConfigError("there is no target", hint="name a folder with --out")
    out = Place(stores.spark, ask.out)
    with only_one(out):
        for left in out.names():
            if left.startswith(STAGING):
                (out / left).delete()
        return _export(stores, ask, out)


def _export(stores: Stores, ask: Ask, out: Place) -> Result:
    number, progress = _last_run(out, ask.topic)
    target, staging = out / f"{RUN}{number + 1:0{RUN_DIGITS}d}", out / f"{STAGING}{uuid.uuid4().hex[:8]}"
    _write(_new_messages(stores, ask, progress), staging)
    written = stores.spark.read.schema(_SCHEMA).parquet(staging.text)
    reached = written.groupBy("store").agg(F.max(F.col("phys_offset") + F.col("size")).alias("next_offset")).collect()
    if not reached:
        staging.delete()
        return Result("Exported messages", _summary(written.limit(0)), ["there was nothing new"])
    summary = _summary(written)
    rows = stores.spark.createDataFrame(summary.collect(), summary.schema)  # before the files get other names
    progress |= {row["store"]: row["next_offset"] for row in reached}
    if not staging.rename(target):
        raise StoreError(f"{staging.text} could not be renamed to {target.text}")
    (target / PROGRESS).write(json.dumps({"topics": sorted(ask.topic), "stores": progress}))
    return Result("Exported messages", rows, [f"written to {target.text}"])


def _last_run(out: Place, topics: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Its number, and where in each log it ended; (0, {}) before the first."""
    runs = [name for name in out.names() if name.startswith(RUN) and name.removeprefix(RUN).isdecimal()]
    if runs and not _progress_text(out / runs[-1]):
        (out / runs.pop()).delete()
    if not runs:
        return 0, {}
    saved: dict[str, Any] = json.loads(_progress_text(out / runs[-1]))
    if saved["topics"] != sorted(topics):
        chosen = ", ".join(saved["topics"]) or "all topics"
        raise ConfigError(f"{out.text} holds an export of {chosen}", hint="name the same topics, or another folder")
    return int(runs[-1].removeprefix(RUN)), saved["stores"]


def _progress_text(run: Place) -> str:
    """Empty if the run was killed before its end."""
    file = run / PROGRESS
    return file.read() if file.exists() else ""


def _new_messages(stores: Stores, ask: Ask, progress: Mapping[str, int]) -> DataFrame:
    """Read through the log, not through the queues of the topics: they may lag behind it, each by itself, and what is
    not in them yet would be passed over for good."""
    each = []
    for folder in stores.folders():
        reached = progress.get(folder.name, 0)
        if reached > max((file.end for file in folder.log_files()), default=0):
            what = f"the log of {folder.name} ends before {reached}, which an earlier export has reached"
            raise StoreError(what, hint="another store has this name now; export it to another folder")
        one = Stores(stores.spark, f"{folder.name}={folder.root}")
        each.append(one.messages(*MESSAGES.names, from_offset=reached, body="full"))
    found = reduce(DataFrame.unionByName, each)
    return found.where(F.col("topic").isin(*ask.topic)) if ask.topic else found


def _write(messages: DataFrame, staging: Place) -> None:
    messages.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    dated = messages.withColumn("day", F.to_date("store_time"))
    # Few large files, but not one task for all of a large topic.
    dated.hint("rebalance", "topic", "day").write.partitionBy("topic", "day").parquet(staging.text)


def _summary(written: DataFrame) -> DataFrame:
    return (
        written.groupBy("topic", "day")
        .agg(
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
            F.min("store_time").alias("first"),
            F.max("store_time").alias("last"),
        )
        .orderBy("topic", "day")
    )
