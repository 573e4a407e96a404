"""How many messages and bytes came: per topic, tag, producer and time.

`by` says what a row is about, out of the names in `COLUMNS`. By store, topic, queue and tags code alone the 20-byte
entries of the consume queues tell it all, and the log is not read. Entries hold a hash of the tag, not its name, and no
time: with a time, a tag's name or a producer every record of the log is looked at, though only at what is needed.

Bytes are those of the records in the log, with everything that belongs to a message. All topics count, also the
servers' own, so that the sum is what the log holds; a delayed message is there twice, waiting and delivered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from mqctl.errors import ConfigError
from mqctl.store.scan.bounds import Bounds
from spark.asking import entries_asked, messages_asked
from spark.result import Plot, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.result import Ask
    from spark.stores import Stores

# The names that `by` knows, and the columns they come from.
COLUMNS: Final = {
    "time": "store_time",
    "store": "store",
    "topic": "topic",
    "queue": "queue_id",
    "code": "tags_code",
    "tag": "tags",
    "host": "born_host",
}
DEFAULT_BY: Final = ("time", "topic")
IN_ENTRIES: Final = frozenset({"store", "topic", "queue", "code"})

# Lengths that a clock knows, in seconds. The shortest that makes no more than so many of the whole span is taken.
BUCKETS: Final = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86_400)
MOST_BUCKETS: Final = 48


def run(stores: Stores, ask: Ask) -> Result:
    """The `top` with the most messages; by time, all times of those."""
    by = ask.by or DEFAULT_BY
    _check(by, ask)
    if "time" not in by:
        rows = _counted(stores, ask, by).orderBy(F.desc("messages"), *by).limit(ask.top)
        return Result("Messages stored", rows)
    seconds = ask.bucket_s or _bucket(stores, ask)
    counted = _counted(stores, ask, by, seconds).cache()
    series = [name for name in by if name != "time"]
    busiest = (
        counted.groupBy(*series).agg(F.sum("messages").alias("all")).orderBy(F.desc("all"), *series).limit(ask.top)
    )
    rows = (
        _among(counted, busiest, series)
        .withColumn("per_second", F.round(F.col("messages") / seconds, 3))
        .withColumn("bytes_per_second", F.round(F.col("bytes") / seconds, 1))
        .orderBy("time", *series)
    )
    plot = Plot("lines", "time", "per_second", series[0] if series else None, "Messages per second")
    return Result(f"Messages stored, per {seconds} s", rows, plot=plot)


def _check(by: tuple[str, ...], ask: Ask) -> None:
    if unknown := set(by) - COLUMNS.keys():
        raise ConfigError(
            f"traffic cannot be told by {', '.join(sorted(unknown))}", hint=f"by any of {', '.join(COLUMNS)}"
        )
    if "code" in by and not _from_entries(by, ask):
        raise ConfigError(
            "a tags code is known without time, tag or host only", hint=f"by any of {', '.join(sorted(IN_ENTRIES))}"
        )


def _from_entries(by: tuple[str, ...], ask: Ask) -> bool:
    return IN_ENTRIES.issuperset(by) and ask.since_ms is None and ask.until_ms is None


def _counted(stores: Stores, ask: Ask, by: tuple[str, ...], seconds: int | None = None) -> DataFrame:
    """What each name of `by` stands for, messages and bytes; times in steps of so many seconds."""
    asked = entries_asked if _from_entries(by, ask) else messages_asked
    found = asked(stores, ask, *(COLUMNS[name] for name in by), counted=True, every_s=seconds)
    return found.groupBy(*map(_named, by)).agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))


def _named(name: str) -> Column:
    column = F.col(COLUMNS[name])
    if name == "host":  # without the port, which is another one for each connection
        return F.regexp_replace(column, r":\d+$", "").alias(name)
    return column.alias(name)


def _among(counted: DataFrame, busiest: DataFrame, series: list[str]) -> DataFrame:
    if not series:
        return counted
    same = [counted[name].eqNullSafe(busiest[name]) for name in series]  # a message may have no tag
    return counted.join(F.broadcast(busiest), same, "left_semi")


def _bucket(stores: Stores, ask: Ask) -> int:
    """By the time that was asked for, or what the logs hold of it."""
    times = [point.store_ms for folder in stores.folders() for point in Bounds(folder).log_times()]
    since = ask.since_ms if ask.since_ms is not None else min(times, default=0)
    until = ask.until_ms if ask.until_ms is not None else max(times, default=0)
    span = (until - since) / 1000
    return next((seconds for seconds in BUCKETS if span / seconds <= MOST_BUCKETS), BUCKETS[-1])
