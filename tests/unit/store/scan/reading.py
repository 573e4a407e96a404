"""Reading stores of tests as columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import message_parts
from mqctl.store.scan.schema import MESSAGES, narrowed

EVERYTHING = Wanted().with_body("full")
# Some records of `stores.message` per part, so that a store of a few kilobytes is read in many.
PART_BYTES = 300


def folder(root: Path | str) -> StoreFolder:
    return StoreFolder("s", str(root))


def read(root: Path | str, wanted: Wanted = EVERYTHING, part_bytes: int = PART_BYTES) -> list[dict[str, Any]]:
    """The rows in the order of the log, whatever parts they came from."""
    parts = message_parts(folder(root), wanted, part_bytes)
    batches = [batch for part in parts for batch in part.batches(wanted)]
    rows = pa.Table.from_batches(batches, narrowed(MESSAGES, wanted.columns)).to_pylist()
    return sorted(rows, key=lambda row: int(row["phys_offset"]))


def bodies(root: Path | str, wanted: Wanted = EVERYTHING, part_bytes: int = PART_BYTES) -> list[bytes]:
    return [row["body"] for row in read(root, wanted, part_bytes)]
