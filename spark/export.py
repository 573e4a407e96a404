"""Messages as Parquet, partitioned by topic and day (UTC, of the store time). A second run adds only what is new.

    OUT/run=000001/topic=orders/day=2026-11-18/part-....parquet
    OUT/run=000001/_progress.json       how far the runs up to this one have come in which logs
    OUT/run=000002/...

Progress is kept by the names of stores, which are those of their folders unless somebody gives them others. So it says
where each lies as well, and another store of the same name is refused: it would be passed over up to that place.

A run writes into a folder that readers pass over, gives it its name when all is written, and its progress last. One
that was killed leaves a folder that readers pass over, or one without progress, and the next run removes either. Where
renaming a folder is not one step, as in object stores, readers who want whole runs only take those that have progress.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqctl.errors import ConfigError, StoreError
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.schema import MESSAGES
from spark.asking import check_topics
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

_OTHER_PLACE: Final = f"export to another folder; for the same store, moved, correct the places in the last {PROGRESS}"


@dataclass(slots=True)
class ExportProgress:
    """By the names of stores: where in its log the next run begins, and its path or URI."""

    reached: dict[str, int] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def text(self, topics: tuple[str, ...]) -> str:
        return json.dumps({"topics": sorted(topics), "stores": self.reached, "places": self.places})


def run(stores: Stores, ask: Ask) -> Result:
    """One row per topic and day that got new messages."""
    if not ask.out:
        raise ConfigError("there is no target", hint="name a folder with --out")
    check_topics(stores, ask)
    out = Place(stores.spark, ask.out)
    with only_one(out):
        for left in out.names():
            if left.startswith(STAGING):
                (out / left).delete()
        return _export(stores, ask, out)


def _export(stores: Stores, ask: Ask, out: Place) -> Result:
    number, progress = _last_run(out, ask.topic)
    _check_places(stores.folders(), progress.places)
    lost = list(deleted(stores.folders(), progress.reached))
    target, staging = out / f"{RUN}{number + 1:0{RUN_DIGITS}d}", out / f"{STAGING}{uuid.uuid4().hex[:8]}"
    _write(_new_messages(stores, ask, progress.reached), staging)
    written = stores.spark.read.schema(_SCHEMA).parquet(staging.text)
    reached = written.groupBy("store").agg(F.max(F.col("phys_offset") + F.col("size")).alias("next_offset")).collect()
    if not reached:
        staging.delete()
        return Result("Exported messages", _summary(written.limit(0)), [*lost, "there was nothing new"])
    summary = _summary(written)
    rows = stores.spark.createDataFrame(summary.collect(), summary.schema)  # before the files get other names
    progress.reached |= {row["store"]: row["next_offset"] for row in reached}
    progress.places |= {folder.name: folder.root for folder in stores.folders()}
    if not staging.rename(target):
        raise StoreError(f"{staging.text} could not be renamed to {target.text}")
    (target / PROGRESS).write(progress.text(ask.topic))
    return Result("Exported messages", rows, [*lost, f"written to {target.text}"])


def _last_run(out: Place, topics: tuple[str, ...]) -> tuple[int, ExportProgress]:
    """Its number, and how far it came; 0 and nothing before the first."""
    runs = [name for name in out.names() if name.startswith(RUN) and name.removeprefix(RUN).isdecimal()]
    if runs and not _progress_text(out / runs[-1]):
        (out / runs.pop()).delete()
    if not runs:
        return 0, ExportProgress()
    saved: dict[str, Any] = json.loads(_progress_text(out / runs[-1]))
    if saved["topics"] != sorted(topics):
        chosen = ", ".join(saved["topics"]) or "all topics"
        raise ConfigError(f"{out.text} holds an export of {chosen}", hint="name the same topics, or another folder")
    return int(runs[-1].removeprefix(RUN)), ExportProgress(saved["stores"], saved.get("places", {}))


def _progress_text(run: Place) -> str:
    """Empty if the run was killed before its end."""
    file = run / PROGRESS
    return file.read() if file.exists() else ""


def _check_places(folders: Sequence[StoreFolder], places: Mapping[str, str]) -> None:
    """Raises ConfigError for a store that has not the name or the place it had."""
    names = {place: name for name, place in places.items()}
    for folder in folders:
        place, name = places.get(folder.name, folder.root), names.get(folder.root, folder.name)
        if place != folder.root:
            raise ConfigError(f"{folder.name} was exported from {place}, and is {folder.root} now", hint=_OTHER_PLACE)
        if name != folder.name:
            raise ConfigError(f"{folder.root} was exported as {name}", hint=f"--store {name}={folder.root}")


def deleted(folders: Sequence[StoreFolder], reached: Mapping[str, int]) -> Iterator[str]:
    """What to tell of logs from which something went before it was exported. Raises StoreError for a log that is
    another one."""
    for folder in folders:
        files, begin = folder.log_files(), reached.get(folder.name, 0)
        if begin > max((file.end for file in files), default=0):
            what = f"the log of {folder.name} ends before {begin}, which an earlier export has reached"
            raise StoreError(what, hint="another store has this name now; export it to another folder")
        if begin and files[0].start > begin:
            yield f"{folder.name}: {files[0].start - begin} bytes of the log were deleted before they were exported"


def _new_messages(stores: Stores, ask: Ask, reached: Mapping[str, int]) -> DataFrame:
    """Read through the log, not through the queues of the topics: they may lag behind it, each by itself, and what is
    not in them yet would be passed over for good."""
    found = reduce(
        DataFrame.unionByName,
        (
            stores.only(folder).messages(*MESSAGES.names, from_offset=reached.get(folder.name, 0), body="full")
            for folder in stores.folders()
        ),
    )
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
