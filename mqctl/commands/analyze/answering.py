"""From the driver's events to an answer, with the progress of the work on the terminal meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from mqctl.commands.analyze.submitting import Event, Running
from mqctl.commands.common import Session
from mqctl.errors import MqError

Row = dict[str, Any]

_WIDTH: Final = 60
_BAR: Final = 30


@dataclass(slots=True)
class Answer:
    """`columns` are names and Spark's types; a `timestamp` is milliseconds since 1970."""

    title: str = ""
    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    plot: dict[str, Any] | None = None
    status: int = 0
    complete: bool = False  # a driver elsewhere, or one that is gone, says nothing


class Refused(MqError):
    """What the driver told instead of an answer; `status` is what to end with."""

    def __init__(self, message: str, hint: str | None, status: int) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def read_answer(session: Session, running: Running, events: Iterable[Event]) -> Answer:
    """The next whole answer. Raises Refused where there is none."""
    answer = Answer()
    bar = Bar(session)
    try:
        for event in events:
            if event["event"] == "progress":
                bar.show(event["done"], event["total"])
                continue
            bar.clear()
            if event["event"] == "note":
                session.env.say(f"note: {event['text']}")
            elif event["event"] == "result":
                answer.title, answer.plot = event["title"], event["plot"]
                answer.columns = [(name, kind) for name, kind in event["columns"]]
            elif event["event"] == "row":
                names = (name for name, _ in answer.columns)
                answer.rows.append(dict(zip(names, event["values"], strict=True)))
            elif event["event"] == "error":
                hint = event["hint"] if event["expected"] else running.keep_log()
                raise Refused(event["message"], hint, event["status"])
            else:
                answer.status, answer.complete = event["status"], True
                break
    finally:
        bar.clear()
    return answer


class Bar:
    """Tasks done of those known, in one line that changes; on a terminal only."""

    def __init__(self, session: Session) -> None:
        self._stream = session.env.stderr
        self._terminal = self._stream.isatty()
        self._shown = False

    def show(self, done: int, total: int) -> None:
        if self._terminal:
            filled = "#" * (_BAR * done // max(total, 1))
            self._write(f"[{filled:.<{_BAR}}] {done} of {total} tasks")

    def clear(self) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text:<{_WIDTH}}" + ("" if text else "\r"))
        self._stream.flush()
        self._shown = bool(text)
