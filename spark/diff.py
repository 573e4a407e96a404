"""Two stores of one broker group: what the other one lacks, has besides, or has otherwise.

Replicas hold the same bytes at the same log offsets. So the log is compared in ranges first, of which executors compute
checksums; only where these differ are records read, of both. Files that one of the two has deleted already, or does not
have yet because it began later, are no difference: the comparison begins where both have a log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqctl.errors import ConfigError
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.storage import storage
from spark.result import Ask, Result
from spark.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import Column

RANGE: Final = 32 * 1024 * 1024
PER_TASK: Final = 8  # ranges

# More spans than this that differ are read as one: each costs a scan of its own.
MOST_SPANS: Final = 16

_SHOWN: Final = ("topic", "queue_id", "queue_offset", "size", "store_time")
_COMPARED: Final = (
    *_SHOWN, "body_crc", "body", "flag", "sys_flag", "born_time", "born_host", "store_host", "reconsume_times",
    "prepared_offset", "properties",
)  # fmt: skip


class Piece(NamedTuple):
    """What a store has of a range of the log: bytes of one of its files."""

    range_start: int
    path: str
    position: int
    size: int


class Span(NamedTuple):
    start: int
    stop: int


def run(stores: Stores, ask: Ask) -> Result:
    """One row per kind of difference and queue, the worst first. The exit code is 1 if there is any."""
    others = Stores(stores.spark, ask.other)
    ours, theirs = told_apart(_single(stores), _single(others))
    spans = _differing(stores, ours, theirs)
    rows = _records(stores, others, spans)
    found = rows.collect()
    notes = [*_begins(ours, theirs), *_config(stores, others)]
    if not found:
        notes.append(f"{ours.name} and {theirs.name} hold the same records")
    frame = stores.spark.createDataFrame(found, rows.schema)
    return Result(f"What {theirs.name} has otherwise than {ours.name}", frame, notes, exit_code=1 if found else 0)


def _single(stores: Stores) -> StoreFolder:
    folders = stores.folders()
    if len(folders) != 1:
        names = ", ".join(folder.name for folder in folders)
        raise ConfigError(f"a store is compared with one other; here are {names}", hint="name one folder on each side")
    return folders[0]


def told_apart(ours: StoreFolder, theirs: StoreFolder) -> tuple[StoreFolder, StoreFolder]:
    """Folders of one name are called by their paths: .../a/store and .../b/store would both be `store`."""
    if ours.name != theirs.name:
        return ours, theirs
    return replace(ours, name=ours.root), replace(theirs, name=theirs.root)


# -- ranges -------------------------------------------------------------------------------------------


def _differing(stores: Stores, ours: StoreFolder, theirs: StoreFolder) -> list[Span]:
    """Where the two have different bytes, neighbours together."""
    begin = max(_begin(ours), _begin(theirs))
    have, others = (dict(_digests(stores, side, begin)) for side in (ours, theirs))
    starts = sorted(start for start in have.keys() | others.keys() if have.get(start) != others.get(start))
    spans: list[Span] = []
    for start in starts:
        if spans and spans[-1].stop == start:
            spans[-1] = Span(spans[-1].start, start + RANGE)
        else:
            spans.append(Span(max(start, begin), start + RANGE))
    return spans if len(spans) <= MOST_SPANS else [Span(spans[0].start, spans[-1].stop)]


def _begin(folder: StoreFolder) -> int:
    return min((file.start for file in folder.log_files()), default=0)


def _digests(stores: Stores, folder: StoreFolder, begin: int) -> Iterator[tuple[int, str]]:
    """A checksum of each range that the store has files for."""
    pieces = list(_pieces(folder, begin))
    if not pieces:
        return
    context = stores.spark.sparkContext
    digests = context.parallelize(pieces, -(-len(pieces) // PER_TASK)).map(_digest).collect()
    ranges: dict[int, str] = {}
    for piece, digest in zip(pieces, digests, strict=True):
        ranges[piece.range_start] = ranges.get(piece.range_start, "") + digest
    yield from ranges.items()


def _pieces(folder: StoreFolder, begin: int) -> Iterator[Piece]:
    for file in folder.log_files():
        start = max(file.start, begin)
        while start < file.end:
            range_start = start - start % RANGE
            stop = min(range_start + RANGE, file.end)
            yield Piece(range_start, file.path, start - file.start, stop - start)
            start = stop


def _digest(piece: Piece) -> str:
    data = storage(piece.path).window(piece.path, piece.position, piece.size, whole=True)
    return hashlib.blake2b(data.data, digest_size=16).hexdigest() if data.any() else ""  # as if the file were not there


# -- records ------------------------------------------------------------------------------------------


def _records(stores: Stores, others: Stores, spans: list[Span]) -> DataFrame:
    have, other = _read(stores, spans), _read(others, spans)
    shown = [F.coalesce(have[name], other[name]).alias(name) for name in _SHOWN]
    what = (
        F.when(other["content"].isNull(), "missing")
        .when(have["content"].isNull(), "only there")
        .when(have["content"] != other["content"], "different")
    )
    both = have.join(other, have["phys_offset"] == other["phys_offset"], "full").select(
        what.alias("what"), *shown, F.coalesce(have["phys_offset"], other["phys_offset"]).alias("phys_offset")
    )
    return (
        both.where("what IS NOT NULL")
        .groupBy("what", "topic", "queue_id")
        .agg(
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
            F.min("queue_offset").alias("first_offset"),
            F.max("queue_offset").alias("last_offset"),
            F.min("phys_offset").alias("first_place"),
            F.max("phys_offset").alias("last_place"),
            F.min("store_time").alias("first_time"),
            F.max("store_time").alias("last_time"),
        )
        .orderBy(F.desc("messages"), "what", "topic", "queue_id")
    )


def _read(stores: Stores, spans: list[Span]) -> DataFrame:
    each = [
        stores.messages("phys_offset", *_COMPARED, body="full", from_offset=span.start, to_offset=span.stop)
        for span in spans or [Span(0, 0)]
    ]
    found = reduce(DataFrame.unionByName, each)
    return found.select("phys_offset", *_SHOWN, _content().alias("content"))


def _content() -> Column:
    """A number that stands for all of a record."""
    fields = [F.map_entries("properties") if name == "properties" else F.col(name) for name in _COMPARED]
    return F.xxhash64(*fields)


# -- what is told beside ------------------------------------------------------------------------------


def _begins(ours: StoreFolder, theirs: StoreFolder) -> Iterator[str]:
    if _begin(ours) != _begin(theirs):
        yield f"the log of {ours.name} begins at {_begin(ours)}, that of {theirs.name} at {_begin(theirs)}"


def _config(stores: Stores, others: Stores) -> Iterator[str]:
    for what, have, other in (
        ("topic", stores.topics(), others.topics()),
        ("group", stores.groups(), others.groups()),
    ):
        lacking = [row[0] for row in have.select(what).subtract(other.select(what)).orderBy(what).collect()]
        if lacking:
            yield f"{len(lacking)} {what}s are only in the first: {', '.join(lacking)}"
