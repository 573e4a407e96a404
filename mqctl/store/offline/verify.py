"""Checking a store against itself, without changing it.

The log is the truth. One pass over it checks every record (layout, place, CRC) and leads the checks of the consume
queues and of the index along.

A finding is damage, or a note about something that is normal under the circumstances: the records of a deleted
topic, or a queue that lags behind the log while a broker runs or after a crash (the next start adds the entries).
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

from mqctl.store import record
from mqctl.store.offline.check_config import ParseJson, check_checkpoint, check_config, existing_topics
from mqctl.store.offline.check_index import IndexCheck
from mqctl.store.offline.check_queues import QueueChecks
from mqctl.store.offline.datafiles import DataFiles
from mqctl.store.offline.entries import has_entry
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.logscan import STEP, OnProgress, RawRecord, no_progress
from mqctl.store.offline.sizes import usual_size

# No message was stored after the year 2100: no CRC covers the time, and the index counts seconds from it.
MAX_TIMESTAMP: Final = 4_102_444_800_000


def verify(
    store: StoreFolder,
    parse_json: ParseJson,
    on_progress: OnProgress = no_progress,
    *,
    clean: bool | None = None,
) -> Report:
    """`parse_json` raises ValueError for what it cannot read; `on_progress` gets bytes of the log. `clean` tells how
    to judge the store, if not by whether it looks so."""
    report = Report(store, store.clean if clean is None else clean)
    # Queues and index are looked at first: whatever they hold by now has its record when the scan comes by.
    queues, index = QueueChecks(report, existing_topics(store, parse_json)), IndexCheck(report)
    check_config(report, parse_json)
    for path in _ill_fitting(report, store.log):
        report.files.append(path)
    for queue in store.queues:
        if _ill_fitting(report, queue.files):
            report.queues.add((queue.topic.encode(errors="surrogateescape"), queue.queue_id))
    _check_log(report, queues, index, on_progress)
    queues.finish()
    index.finish()
    check_checkpoint(report)
    report.finish()
    return report


def _ill_fitting(report: Report, sequence: DataFiles) -> list[Path]:
    """A broker wants files of one size, one behind the other."""
    found = []
    files, usual = sequence.files, usual_size(sequence) or 0
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


def _check_log(report: Report, queues: QueueChecks, index: IndexCheck, on_progress: OnProgress) -> None:
    log = report.store.log
    if not log.files and any(queue.messages for queue in report.store.queues):
        where = "if storePathCommitLog lies elsewhere, name it with --commitlog"
        report.damage(log.directory, None, f"no log file is here; {where}")
    begin, total, next_step = log.begin, log.end - log.begin, log.begin + STEP
    scan = report.store.scan(report.log_damage)
    for raw in scan:
        report.records += 1
        problem = _problem(raw)
        if problem is not None:
            _record_damage(report, raw, problem)
        elif raw.fields[10] > report.last_timestamp:
            report.last_timestamp = raw.fields[10]
        queues.add(raw)
        index.add(raw)
        if scan.place >= next_step:
            on_progress(scan.place - begin, total)
            next_step = scan.place + STEP
    report.log_end = scan.end


def _problem(raw: RawRecord) -> str | None:
    """What is wrong within a record whose parts add up."""
    body = memoryview(raw.buffer)[raw.body_at : raw.body_at + raw.fields[-1]]
    if body and zlib.crc32(body) & record.CRC_MASK != raw.fields[2]:
        return "the body's CRC does not match"
    if not 0 <= raw.fields[10] < MAX_TIMESTAMP:
        return f"the store time {raw.fields[10]} cannot be one"
    return None


def _record_damage(report: Report, raw: RawRecord, what: str) -> None:
    fields = raw.fields
    where = f"record of {raw.topic.decode(errors='replace')}/{fields[3]}@{fields[5]}"
    report.log_damage(fields[6], fields[6] + fields[0], f"{what}; {where}")
    if has_entry(fields[7]):
        report.queues.add((raw.topic, fields[3]))  # its entry leads to nothing once the record is replaced
