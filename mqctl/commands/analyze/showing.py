"""An answer on standard output."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from mqctl.commands.analyze.answering import Answer, Row
from mqctl.commands.analyze.chart import chart_of, sparklines
from mqctl.commands.common import Session
from mqctl.figures import count_text, size_text
from mqctl.output import Column, Format
from mqctl.times import time_text

# Whole numbers by the names that jobs give them; one of another name may be anything.
_FORMS: Final = {"messages": count_text, "lag": count_text, "bytes": size_text, "log_bytes": size_text}


def columns_of(answer: Answer) -> list[Column]:
    """For people: times are local, and headings have spaces."""
    return [Column(name, name.replace("_", " ").upper(), _form(name, kind)) for name, kind in answer.columns]


def _form(name: str, kind: str) -> Callable[[Any], str] | None:
    if kind == "timestamp":
        return time_text
    return _FORMS.get(name) if kind in ("int", "bigint") else None


def show(session: Session, answer: Answer) -> None:
    for_people = session.output in (None, Format.TABLE, Format.WIDE)
    rows = [_rounded(row) for row in answer.rows] if for_people else _with_iso_times(answer)
    session.print_rows(columns_of(answer), rows)
    chart = chart_of(answer)
    if for_people and session.env.on_terminal and chart is not None:
        print("", *sparklines(chart), sep="\n", file=session.env.stdout, flush=True)


def _rounded(row: Row) -> Row:
    return {name: _short(value) if isinstance(value, float) else value for name, value in row.items()}


def _short(value: float) -> float:
    return round(value, 1) if abs(value) >= 100 else float(f"{value:.3g}")


def _with_iso_times(answer: Answer) -> list[Row]:
    """As Spark itself writes times into files: ISO 8601 in UTC."""
    times = {name for name, kind in answer.columns if kind == "timestamp"}
    return [{name: _iso(value) if name in times else value for name, value in row.items()} for row in answer.rows]


def _iso(timestamp_ms: Any) -> str | None:
    if timestamp_ms is None:
        return None
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
