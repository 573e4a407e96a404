"""One file of a log: every record in its place, with the body it was stored with. Runs on executors, a file each."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from mqctl.store.record import BLANK, CRC_MASK
from mqctl.store.scan.chain import candidates, is_blank, places
from mqctl.store.scan.folder import DataFile
from mqctl.store.scan.records import HEADS, MIN_RECORD, Records, sound
from mqctl.store.scan.storage import Bytes, storage
from spark.findings import MOST_FINDINGS, Finding, damage

# How much of a file is looked at at a time; twice that for a record which does not end within it.
PIECE: Final = 32 * 1024 * 1024
LARGEST_RECORD: Final = 2 * PIECE

# A broker may be writing the record at the log's end while we read it. It is looked at again after this long.
SECOND_LOOK_S: Final = 0.05

# No message was stored after the year 2100: no CRC covers the time.
MAX_TIMESTAMP: Final = 4_102_444_800_000


class LogFile(NamedTuple):
    store: str
    file: DataFile
    is_followed: bool  # whether the next file holds records

    def damage(self, position: int, what: str) -> Finding:
        name = self.file.path.rpartition("/")[2]
        return damage(self.store, f"commitlog/{name}", position, what)


def check_file(log: LogFile) -> list[Finding]:
    return list(islice(_findings(log), MOST_FINDINGS))


def _findings(log: LogFile) -> Iterator[Finding]:
    place, size = 0, log.file.size
    while size - place >= BLANK.size:
        data = _window(log, place)
        found, following = _records(log, data, place)
        yield from _unsound(log, found, place)
        place += following
        if following:
            continue
        if not len(data) or is_blank(data, 0, size - place):
            return
        next_record = _next_record(log, place + 1)
        if not data[: BLANK.size].any():
            if next_record is None and not log.is_followed:
                return  # the log's end
            yield log.damage(place, "zeros, with records behind them")
        elif not _is_written_now(log, place, next_record):
            yield log.damage(place, "no record, nor a blank up to the file's end")
        place = size if next_record is None else next_record


def _window(log: LogFile, place: int, size: int = LARGEST_RECORD) -> Bytes:
    return storage(log.file.path).window(log.file.path, place, min(size, log.file.size - place), whole=False)


def _records(log: LogFile, data: Bytes, place: int) -> tuple[Records, int]:
    """The sound records from the beginning of the piece on, and where the first that is none of them begins."""
    if len(data) < MIN_RECORD:
        return Records(data, 0, np.empty(0, np.int64), np.empty(0, HEADS[0])), 0
    at, following = places(data, 0, min(PIECE, len(data) - MIN_RECORD + 1))
    found, good = sound(data, log.file.start + place, at)
    if good.all():
        return found, following
    first_bad = int(good.argmin())
    return found.first(first_bad), int(at[first_bad])


def _unsound(log: LogFile, found: Records, place: int) -> Iterator[Finding]:
    """Records whose parts add up, but not their content."""
    data = np.ascontiguousarray(found.data).data
    ends = (found.body_at + found.body_size).tolist()
    for number, (begin, end, crc) in enumerate(
        zip(found.body_at.tolist(), ends, found.field("body_crc").tolist(), strict=True)
    ):
        if end > begin and zlib.crc32(data[begin:end]) & CRC_MASK != crc:
            yield log.damage(place + int(found.at[number]), f"the body's CRC does not match; {_named(found, number)}")
    times = found.field("store_time")
    for number in np.flatnonzero((times < 0) | (times >= MAX_TIMESTAMP)).tolist():
        what = f"the store time {times[number]} cannot be one; {_named(found, number)}"
        yield log.damage(place + int(found.at[number]), what)


def _named(found: Records, number: int) -> str:
    at = int(found.topic_at[number])
    topic = found.data[at : at + int(found.topic_size[number])].tobytes().decode(errors="replace")
    return f"record of {topic}/{found.field('queue_id')[number]}@{found.field('queue_offset')[number]}"


def _next_record(log: LogFile, start: int) -> int | None:
    """Where in the file the next sound record begins, from `start` on."""
    while log.file.size - start >= MIN_RECORD:
        data = _window(log, start)
        for at, _ in candidates(data, log.file.start + start, min(PIECE, len(data))):
            if len(data) - at >= MIN_RECORD and len(sound(data, log.file.start + start, np.array([at]))[0]):
                return start + at
        if not len(data):
            return None
        start += PIECE
    return None


def _is_written_now(log: LogFile, place: int, next_record: int | None) -> bool:
    if next_record is not None or log.is_followed:
        return False
    time.sleep(SECOND_LOOK_S)
    data = _window(log, place)
    return not len(data) or bool(_records(log, data, place)[1])
