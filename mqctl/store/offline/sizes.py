"""How large the files of a store are, as far as its folder shows: RocketMQ's defaults where it has none of a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from mqctl.store.consumequeue import ENTRY_SIZE
from mqctl.store.indexfile import Geometry
from mqctl.store.offline.datafiles import DataFile, DataFiles
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.indexes import find_geometries, index_files

DEFAULT_LOG_FILE: Final = 1024 * 1024 * 1024
DEFAULT_QUEUE_FILE: Final = 300_000 * ENTRY_SIZE


def usual_size(sequence: DataFiles) -> int | None:
    """A damaged file may have another size than the others."""
    return _most_common(sequence.files)


def log_file_size(store: StoreFolder) -> int:
    return usual_size(store.log) or DEFAULT_LOG_FILE


def queue_file_size(store: StoreFolder) -> int:
    return _most_common(file for queue in store.queues for file in queue.files.files) or DEFAULT_QUEUE_FILE


def index_geometry(store: StoreFolder) -> Geometry:
    geometries = find_geometries(store)
    sizes = [file.size for file in index_files(store) if file.size in geometries]
    return geometries[sizes[-1]] if sizes else Geometry()


def _most_common(files: Iterable[DataFile]) -> int | None:
    sizes = Counter(file.size for file in files if file.size)
    return sizes.most_common(1)[0][0] if sizes else None
