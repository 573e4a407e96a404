"""Which messages with a time of their own are done with: the two small files that say so."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from mqctl.store.scan.storage import join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqctl.store.scan.folder import StoreFolder
    from spark.stores import Stores

# What Apache's 5.x broker leaves in config/timercheck: how far in time it has delivered, how far its own log of timers
# is flushed, how far it has read the queue.
_APACHE: Final = Struct(">qqq")


def timer_progress(stores: Stores) -> DataFrame:
    """Of the messages before `next_offset` in a store's queue of timers, all whose time is up to `delivered_until` (in
    ms) are done with. Both brokers may have had the store, so there may be two rows for one."""
    rows = [(folder.name, *each) for folder in stores.folders() for each in (_ours(folder), _apaches(folder))]
    return stores.spark.createDataFrame(rows, "store STRING, next_offset BIGINT, delivered_until BIGINT")


def _ours(folder: StoreFolder) -> tuple[int, int]:
    saved = folder.config("timerProgress.json")
    return int(saved.get("queueOffset", 0)), int(saved.get("deliveredUntil", 0))


def _apaches(folder: StoreFolder) -> tuple[int, int]:
    data = folder.storage.read(join(folder.root, "config", "timercheck"), 0, _APACHE.size)
    if len(data) < _APACHE.size:
        return 0, 0
    delivered_until, _, next_offset = _APACHE.unpack(data)
    return next_offset, delivered_until
