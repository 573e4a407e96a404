"""What a check of a store found: for people as findings, for `repair` as the pieces that have to be replaced."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from mqctl.store.offline.folder import StoreFolder

# More findings than this about one file are only counted: a lost file can make millions.
MAX_PER_FILE: Final = 20


class Severity(StrEnum):
    DAMAGE = "damage"
    NOTE = "note"


class Finding(NamedTuple):
    """`file` is relative to the store, `position` a byte in it."""

    severity: Severity
    file: str
    position: int | None
    what: str


class LogDamage(NamedTuple):
    """A part of the log that holds no sound record; `what` says which message it was where that is known."""

    start: int
    end: int
    what: str
    store_timestamp: int  # of what lies before it


@dataclass(slots=True)
class Report:
    store: StoreFolder
    clean: bool  # no broker uses the store or has left it without closing it
    log_end: int = 0  # behind the last record
    last_timestamp: int = 0  # the latest store time of a record
    records: int = 0
    entries: int = 0
    keys: int = 0
    findings: list[Finding] = field(default_factory=list)
    # What has to be replaced. Topics as bytes: a name need not be text.
    log: list[LogDamage] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)  # log files of a wrong size, or with a gap before them
    queues: set[tuple[bytes, int]] = field(default_factory=set)
    index: bool = False
    config: list[Path] = field(default_factory=list)
    checkpoint: bool = False
    _per_file: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def damage(self, path: Path, position: int | None, what: str) -> None:
        self._add(Severity.DAMAGE, path, position, what)

    def note(self, path: Path, position: int | None, what: str) -> None:
        self._add(Severity.NOTE, path, position, what)

    def in_log(self, phys_offset: int, what: str) -> None:
        """Damage that nothing can be done about."""
        file = self.store.log.file_at(phys_offset)
        if file is not None:
            self.damage(file.path, phys_offset - file.start, what)

    def log_damage(self, start: int, end: int, what: str) -> None:
        self.in_log(start, what)
        self.log.append(LogDamage(start, end, what, self.last_timestamp))

    def _add(self, severity: Severity, path: Path, position: int | None, what: str) -> None:
        name = self.store.name(path)
        self._per_file[severity, name] += 1
        if self._per_file[severity, name] <= MAX_PER_FILE:
            self.findings.append(Finding(severity, name, position, what))

    def finish(self) -> None:
        """Says how many findings were only counted."""
        for (severity, name), count in self._per_file.items():
            if count > MAX_PER_FILE:
                self.findings.append(Finding(severity, name, None, f"{count - MAX_PER_FILE} more of these"))

    @property
    def damages(self) -> int:
        return sum(count for (severity, _), count in self._per_file.items() if severity is Severity.DAMAGE)

    @property
    def damaged(self) -> bool:
        return self.damages > 0
