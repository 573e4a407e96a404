"""Stores that have messages in their log and no consume queues, since those were lost or not copied along.

What stands in queues only, nothing else can tell: the job says so in a note. The rest it finds in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqctl.store.record import BLANK

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder
    from spark.stores import Stores


def queueless(stores: Stores) -> list[StoreFolder]:
    return [folder for folder in stores.folders() if is_queueless(folder)]


def is_queueless(folder: StoreFolder) -> bool:
    return next(folder.queues(), None) is None and any(
        any(folder.storage.read(file.path, 0, BLANK.size)) for file in folder.log_files()
    )


def notes(stores: Stores, what: str) -> list[str]:
    """One for each of them, with what follows from that."""
    return [f"{folder.name} has no consume queues: {what}" for folder in queueless(stores)]
