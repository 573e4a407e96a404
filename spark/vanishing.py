"""Files of a log that its broker deletes while a job reads it. Executors pass over them, so the driver looks whether a
log begins later at the end than it did at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder

_NOWHERE: Final = 1 << 63  # where a log begins that has no files


class Vanishing:
    def __init__(self, folders: Sequence[StoreFolder]) -> None:
        self._begins = [(folder, _begin(folder)) for folder in folders]

    def notes(self) -> Iterator[str]:
        """What is to be told of those of which something is gone since this was made."""
        for folder, begin in self._begins:
            if _begin(folder) > begin:
                yield f"files of the log of {folder.root} were deleted meanwhile: what they held may be missing here"


def _begin(folder: StoreFolder) -> int:
    return min((file.start for file in folder.log_files()), default=_NOWHERE)
