"""Checking a store against itself, without changing it.

The log is the truth. One pass over it checks every record (layout, place, CRC) and leads the checks of the consume
queues and of the index along.

A finding is damage, or a note about something that is normal under the circumstances: the records of a deleted
topic, or a queue that lags behind the log while a broker runs or after a crash (the next start adds the entries).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from mqctl.store import record
from mqctl.store.offline.check_config import ParseJson, check_checkpoint, check_config
from mqctl.store.offline.check_index import IndexCheck
from mqctl.store.offline.check_queues import QueueChecks, has_entry
from mqctl.store.offline.datafiles import DataFiles
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.logscan import STEP, RawRecord


def verify(
    store: StoreFolder,
    parse_json: ParseJson,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """`parse_json` raises ValueError for what it cannot read; `on_progress` gets bytes of the log."""
    report = Report(store)
    # Queues and index are looked at first: whatever they hold by now has its record when the scan comes by.
    queues, index = QueueChecks(report), IndexCheck(report)
    queues.existing_topics = check_config(report, parse_json)
    for path in _ill_fitting(report, store.log):
        report.files.append(path)
    for queue in store.queues:
        if _ill_fitting(report, queue.files):
            report.queues.add((queue.topic.encode(errors="surrogateescape"), queue.queue_id))
    last_timestamp = _check_log(report, queues, index, on_progress)
    queues.finish()
    index.finish()
    check_checkpoint(report, last_timestamp)
    report.finish()
    return report


def usual_size(sequence: DataFiles) -> int:
    """What a broker was configured with; a damaged file may have another size."""
    return Counter(file.size for file in sequence.files).most_common(1)[0][0] if sequence.files else 0


def _ill_fitting(report: Report, sequence: DataFiles) -> list[Path]:
    """A broker wants files of one size, one behind the other."""
    found = []
    files, usual = sequence.files, usual_size(sequence)
    for number, file in enumerate(files):
        gap = number > 0 and files[number - 1].start + usual < file.start
        if file.size == 0:
            report.note(file.path, None, "is empty: its process ended before it had its size")
        elif file.size != usual:
            report.damage(file.path, None, f"has {file.size} bytes where the others have {usual}")
        if gap:
            report.damage(file.path, None, f"nothing is there between {files[number - 1].path.name} and this file")
        if gap or file.size not in (0, usual):
            found.append(file.path)
    return found


def _check_log(report: Report, queues: QueueChecks, index: IndexCheck, on_progress: Callable[[int, int], None]) -> int:
    """Returns the latest store time."""
    log = report.store.log
    if not log.files and any(queue.messages for queue in report.store.queues):
        where = "if storePathCommitLog lies elsewhere, name it with --commitlog"
        report.damage(log.directory, None, f"no log file is here; {where}")
    begin, total, next_step = log.begin, log.end - log.begin, log.begin + STEP
    scan = report.store.scan(report.log_damage)
    records = last_timestamp = 0
    for raw in scan:
        records += 1
        if raw.fields[10] > last_timestamp:
            last_timestamp = raw.fields[10]
        if not _crc_fits(raw):
            _crc_damage(report, raw)
        queues.add(raw)
        index.add(raw)
        if scan.place >= next_step:
            on_progress(scan.place - begin, total)
            next_step = scan.place + STEP
    report.records = records
    return last_timestamp


def _crc_fits(raw: RawRecord) -> bool:
    length = raw.fields[-1]
    if not length:
        return True
    return zlib.crc32(memoryview(raw.buffer)[raw.body_at : raw.body_at + length]) & record.CRC_MASK == raw.fields[2]


def _crc_damage(report: Report, raw: RawRecord) -> None:
    fields = raw.fields
    where = f"record of {raw.topic.decode(errors='replace')}/{fields[3]}@{fields[5]}"
    report.log_damage(fields[6], fields[6] + fields[0], f"the body's CRC does not match; {where}")
    if has_entry(fields[7]):
        report.queues.add((raw.topic, fields[3]))  # its entry leads to nothing once the record is replaced
