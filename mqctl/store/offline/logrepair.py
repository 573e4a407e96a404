"""Making a damaged log one that can be read from end to end, by any broker.

RocketMQ walks its log from record to record, and takes the first that is not sound for the log's end: one bad byte
costs all that follows. Here the damaged part alone is replaced:

* between sound records, by records that say they were rolled back: no broker lists those in a queue or in the index;
* up to a file's end, by the blank that stands there anyway;
* behind the last sound record, by zeros.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.files import NAME_DIGITS
from mqctl.store.offline.changing import Aside
from mqctl.store.offline.datafiles import DataFile
from mqctl.store.offline.findings import LogDamage
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.sizes import log_file_size

# A record that fills a place: its body is zeros. Small enough for any broker's largest message.
MAX_FILLER: Final = 1024 * 1024
_TOPIC: Final = b"-"
_HOST: Final = record.pack_host("127.0.0.1", 0)
MIN_FILLER: Final = record.encoded_size(0, len(_TOPIC), 0, 0)


def fit_files(store: StoreFolder, aside: Aside) -> None:
    """Gives every file of the log its size, and a blank one to every gap."""
    usual = log_file_size(store)
    for number, file in enumerate(store.log.files):
        if file.size > usual:
            aside.keep(file.path, usual, file.size - usual, file.start + usual)
        if file.size != usual:
            os.truncate(file.path, usual)
        expected = store.log.files[number - 1].start + usual if number else file.start
        for start in range(expected, file.start, usual):
            _make_blank(store.log.directory / f"{start:0{NAME_DIGITS}d}", usual)


def _make_blank(path: Path, size: int) -> None:
    with path.open("xb") as file:
        file.write(record.BLANK.pack(size, record.MAGIC_BLANK))
        file.truncate(size)


def replace_damage(store: StoreFolder, damage: LogDamage, log_end: int, aside: Aside) -> None:
    """`log_end` is the place behind the last sound record."""
    file = store.log.file_at(damage.start)
    if file is None:
        raise StoreError(f"log offset {damage.start} is in no file of {store.log.directory}")
    aside.keep(file.path, damage.start - file.start, damage.end - damage.start, damage.start)
    with file.path.open("r+b") as log:
        log.seek(damage.start - file.start)
        for piece in _instead(file, damage, log_end):
            log.write(piece)


def _instead(file: DataFile, damage: LogDamage, log_end: int) -> Iterator[bytes]:
    size = damage.end - damage.start
    if damage.start >= log_end or damage.end == file.end:
        blank = record.BLANK.pack(size, record.MAGIC_BLANK) if damage.start < log_end else b""
        yield blank
        for position in range(len(blank), size, MAX_FILLER):
            yield bytes(min(MAX_FILLER, size - position))
        return
    if size < MIN_FILLER:
        raise StoreError(f"{file.path}: the {size} bytes at {damage.start - file.start} are too few for a record")
    place = damage.start
    while place < damage.end:
        left = damage.end - place
        # The last piece must be long enough for a record, too.
        length = left if left <= MAX_FILLER else min(MAX_FILLER, left - MIN_FILLER)
        yield _filler(place, length, damage.store_timestamp)
        place += length


def _filler(place: int, size: int, store_timestamp: int) -> bytes:
    return record.encode(
        size=size,
        topic=_TOPIC,
        queue_id=0,
        queue_offset=0,
        phys_offset=place,
        flag=0,
        sys_flag=record.SYS_TRANSACTION_ROLLBACK,
        born_timestamp=store_timestamp,
        born_host=_HOST,
        store_timestamp=store_timestamp,
        store_host=_HOST,
        reconsume_times=0,
        prepared_offset=0,
        body=bytes(size - MIN_FILLER),
        properties=b"",
    )
