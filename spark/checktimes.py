"""The checkpoint against the log: what a broker once knew to be on disk is still there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from mqctl.store.checkpoint import FILE_SIZE, NO_CHECKPOINT, NO_TIMES, parse_checkpoint
from mqctl.store.scan.bounds import Bounds
from mqctl.store.scan.storage import join
from spark.findings import Finding, damage, note

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder
    from spark.stores import Stores

NAME: Final = "checkpoint"


def checkpoint_findings(stores: Stores) -> Iterator[Finding]:
    """Each file is read before its log: a broker that runs may write both meanwhile."""
    for folder in stores.folders():
        is_there = any(each.name == NAME for each in folder.storage.entries(folder.root))
        checkpoint = parse_checkpoint(folder.storage.read(join(folder.root, NAME), 0, FILE_SIZE))
        last_ms = _last_of_queues(folder)
        if not is_there:
            if last_ms and folder.clean:
                yield note(folder.name, NAME, NO_CHECKPOINT)
        elif checkpoint is None:
            yield damage(folder.name, NAME, 0, NO_TIMES)
        elif checkpoint.behind(last_ms) and (what := checkpoint.behind(_last_of_log(stores, folder))):
            yield note(folder.name, NAME, what)


def _last_of_queues(folder: StoreFolder) -> int:
    return max((each.store_ms for each in Bounds(folder).log_times()), default=0)


def _last_of_log(stores: Stores, folder: StoreFolder) -> int:
    """The queues may be behind, or lack the last message's. All of the log is read, so only ask when they do not do."""
    messages = stores.only(folder).messages("store_time")
    (row,) = messages.agg(F.unix_millis(F.max("store_time")).alias("last_ms")).collect()
    return int(row["last_ms"] or 0)
