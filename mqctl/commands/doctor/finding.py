"""What `mqctl doctor` says: one finding for each thing it looked at."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    OK = "ok"
    NOTE = "note"  # works, and may surprise
    WRONG = "wrong"


class Finding(NamedTuple):
    """`fix` says what to do; there is one whenever the verdict is not ok."""

    verdict: Verdict
    subject: str
    found: str
    fix: str = ""


def ok(subject: str, found: str) -> Finding:
    return Finding(Verdict.OK, subject, found)


def note(subject: str, found: str, fix: str) -> Finding:
    return Finding(Verdict.NOTE, subject, found, fix)


def wrong(subject: str, found: str, fix: str) -> Finding:
    return Finding(Verdict.WRONG, subject, found, fix)
