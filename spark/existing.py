"""Which of some topics there is anything of, told without reading a message: most stores have no delays, for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.queueless import is_queueless

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder
    from spark.stores import Stores


def existing(stores: Stores, *topics: str) -> list[str]:
    """Those that some store has queues of. A store without queues may have any."""
    return [topic for topic in topics if any(_may_have(folder, topic) for folder in stores.folders())]


def existing_like(stores: Stores, *prefixes: str) -> list[str]:
    """All topics whose names begin so."""
    names = {queue.topic for folder in stores.folders() for queue in folder.queues()}
    return sorted(name for name in names if name.startswith(prefixes))


def _may_have(folder: StoreFolder, topic: str) -> bool:
    return next(folder.queues(frozenset({topic})), None) is not None or is_queueless(folder)
