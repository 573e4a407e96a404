"""Whether a store is sound: its log, its queues and its index, each by itself and against the others, in parallel.

    log         every record in its place, with the body it was stored with     a task per file
    queues      a record for every entry and an entry for every record          a join by log offset
    index       links and slots                                                  a task per file
                a message for every entry and an entry for every key            a join by log offset and hash
    files       sizes, gaps, JSON, the checkpoint                                on the driver

As in `mqctl store verify` a finding is damage, or a note about what is normal under the circumstances: a deleted topic,
or queues that lag behind the log while a broker runs. The log is the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from mqctl.errors import StoreError
from mqctl.store.record import BLANK
from mqctl.store.scan.indexes import index_parts
from mqctl.store.scan.plan import LogPlan
from spark.checkfiles import check_files
from spark.checkindex import index_findings
from spark.checkindexfile import IndexFile, check_index_file
from spark.checklog import LogFile, check_file
from spark.checkqueues import queue_findings
from spark.checktimes import checkpoint_findings
from spark.findings import DAMAGE, MOST_FINDINGS, Finding, damage, limited
from spark.result import Ask, Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark.stores import Stores

T = TypeVar("T")

FINDING: Final = "store STRING, severity STRING, file STRING, position BIGINT, what STRING"


def run(stores: Stores, ask: Ask) -> Result:
    """One row per finding, damage first. The exit code is 1 if there is any."""
    bounds = _bounds(stores)
    index_files, found = _index_files(stores)
    if not found:
        found += index_findings(stores, bounds)
    found += queue_findings(stores, bounds)
    found += _each(stores, _log_files(stores), check_file)
    found += _each(stores, index_files, check_index_file)
    found += [each for folder in stores.folders() for each in check_files(folder)]
    found += checkpoint_findings(stores)
    count = sum(each.severity == DAMAGE for each in found)
    frame = stores.spark.createDataFrame(list(limited(found)), FINDING)
    return Result("Findings", frame, [summary(count)], exit_code=1 if count else 0)


def summary(count: int) -> str:
    """Of so many findings that are damage. If any kind was cut off there are as many as that at least."""
    if not count:
        return "no damage was found"
    return f"{'at least ' if count >= MOST_FINDINGS else ''}{count} findings are damage"


def _bounds(stores: Stores) -> DataFrame:
    """Where each log begins, and how far it goes at least. Taken before anything is read: what is stored while we look
    may be in one place and not yet in another."""
    plans = [LogPlan(folder) for folder in stores.folders()]
    rows = [(plan.store.name, plan.begin, plan.known, plan.store.clean) for plan in plans]
    return stores.spark.createDataFrame(rows, "store STRING, log_begin BIGINT, log_end BIGINT, clean BOOLEAN")


def _log_files(stores: Stores) -> list[LogFile]:
    found: list[LogFile] = []
    for folder in stores.folders():
        is_followed = False
        for file in reversed(folder.log_files()):
            found.append(LogFile(folder.name, file, is_followed))
            is_followed = is_followed or any(folder.storage.read(file.path, 0, BLANK.size))
    return found


def _index_files(stores: Stores) -> tuple[list[IndexFile], list[Finding]]:
    """What there is to look at, or why it cannot be."""
    files: dict[str, IndexFile] = {}
    problems: list[Finding] = []
    for folder in stores.folders():
        try:
            for part in index_parts(folder):
                files[part.path] = IndexFile(folder.name, part.path, part.entries_at, folder.clean)
        except StoreError as error:
            problems.append(damage(folder.name, "index", None, error.message))
    return list(files.values()), problems


def _each(stores: Stores, things: Sequence[T], check: Callable[[T], list[Finding]]) -> list[Finding]:
    """A task for each."""
    if not things:
        return []
    return stores.spark.sparkContext.parallelize(things, len(things)).flatMap(check).collect()
