"""What the user of `mqctl top` chose, and what each key does to that. No terminal is involved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from mqctl.figures import count_text, rate_text, seconds_text, share_text, size_text
from mqctl.output import Column, Row
from mqctl.times import time_text


class Panel(IntEnum):
    BROKERS = 0
    TOPICS = 1
    LAGS = 2


# What each table shows; the first column names the line.
COLUMNS: Final = {
    Panel.BROKERS: [
        Column("brokerName", "BROKER"),
        Column("cluster"),
        Column("brokerId", "ID"),
        Column("address"),
        Column("inTps", "IN/S", rate_text),
        Column("outTps", "OUT/S", rate_text),
        Column("disk", show=share_text),
        Column("version"),
    ],
    Panel.TOPICS: [
        Column("topic"),
        Column("inTps", "IN/S", rate_text),
        Column("inBytes", "BYTES/S", size_text),
    ],
    Panel.LAGS: [
        Column("group"),
        Column("topic"),
        Column("lag", "BEHIND", count_text),
        Column("seconds", "FOR", seconds_text),
        Column("clients", show=count_text),
    ],
}
DETAILS: Final = {
    Panel.BROKERS: [Column("name"), Column("value")],
    Panel.TOPICS: [
        Column("brokerName", "BROKER"),
        Column("queueId", "QUEUE"),
        Column("minOffset", "FIRST"),
        Column("maxOffset", "NEXT"),
        Column("lastTimestamp", "LAST MESSAGE", time_text),
    ],
    Panel.LAGS: [
        Column("topic"),
        Column("brokerName", "BROKER"),
        Column("queueId", "QUEUE"),
        Column("brokerOffset", "END"),
        Column("consumerOffset", "CONSUMED"),
        Column("lag", "BEHIND", count_text),
        Column("seconds", "FOR", seconds_text),
    ],
}
TITLES: Final = {Panel.BROKERS: "Brokers", Panel.TOPICS: "Busiest topics", Panel.LAGS: "Groups that are behind"}

# What one wants to see first: brokers by name, the rest by what is largest.
_FIRST_SORT: Final = {Panel.BROKERS: "brokerName", Panel.TOPICS: "inTps", Panel.LAGS: "seconds"}


@dataclass(slots=True)
class State:
    panel: Panel = Panel.LAGS
    line: int = 0  # the one chosen in that panel
    sorts: dict[Panel, str] = field(default_factory=lambda: dict(_FIRST_SORT))
    reversed: set[Panel] = field(default_factory=set)
    detail: Row | None = None  # the line that is looked into
    paused: bool = False
    done: bool = False

    def press(self, key: str, rows: Sequence[Row]) -> None:
        """`rows` are those of the panel, as they are shown. Unknown keys do nothing."""
        action = _KEYS.get(key)
        if action is not None:
            action(self, rows)

    def sorted(self, panel: Panel, rows: Sequence[Row]) -> list[Row]:
        name = self.sorts[panel]
        # Figures begin with the largest, names with a.
        downward = any(isinstance(row[name], (int, float)) for row in rows)
        return sorted(rows, key=lambda row: _order(row[name]), reverse=downward != (panel in self.reversed))

    def _choose(self, panel: Panel) -> None:
        if self.detail is None:
            self.panel, self.line = panel, 0

    def _move(self, steps: int, rows: Sequence[Row]) -> None:
        self.line = max(0, min(self.line + steps, len(rows) - 1))

    def _next_sort(self) -> None:
        names = [column.name for column in COLUMNS[self.panel]]
        self.sorts[self.panel] = names[(names.index(self.sorts[self.panel]) + 1) % len(names)]

    def _enter(self, rows: Sequence[Row]) -> None:
        if self.detail is None and self.line < len(rows):
            self.detail = rows[self.line]

    def _back(self) -> None:
        self.detail = None

    def _quit(self) -> None:
        self.done = True

    def _pause(self) -> None:
        self.paused = not self.paused

    def _turn(self) -> None:
        self.reversed ^= {self.panel}


def _order(value: Any) -> Any:
    """A value that is not there is the smallest."""
    return (value is not None, value if value is not None else 0)


_Action = Callable[[State, Sequence[Row]], None]
_KEYS: Final[dict[str, _Action]] = {
    "tab": lambda state, rows: state._choose(Panel((state.panel + 1) % len(Panel))),
    "1": lambda state, rows: state._choose(Panel.BROKERS),
    "2": lambda state, rows: state._choose(Panel.TOPICS),
    "3": lambda state, rows: state._choose(Panel.LAGS),
    "up": lambda state, rows: state._move(-1, rows),
    "k": lambda state, rows: state._move(-1, rows),
    "down": lambda state, rows: state._move(1, rows),
    "j": lambda state, rows: state._move(1, rows),
    "s": lambda state, rows: state._next_sort(),
    "r": lambda state, rows: state._turn(),
    "enter": lambda state, rows: state._enter(rows),
    "esc": lambda state, rows: state._back(),
    "p": lambda state, rows: state._pause(),
    "q": lambda state, rows: state._quit(),
    "ctrl-c": lambda state, rows: state._quit(),
}

# What terminals send; two forms of arrows are in use.
_CODES: Final = {
    b"\t": "tab",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "esc",
    b"\x7f": "esc",
    b"\x03": "ctrl-c",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
}


def keys_of(data: bytes) -> list[str]:
    """The keys in what was read from a terminal. A sequence that means nothing here is passed over as a whole."""
    found = []
    at = 0
    while at < len(data):
        size = 1
        if data[at] == 0x1B and data[at + 1 : at + 2] in (b"[", b"O"):
            size = 3
            while data[at + 1] == ord("[") and at + size - 1 < len(data) and not 0x40 <= data[at + size - 1] <= 0x7E:
                size += 1
        code = data[at : at + size]
        found.append(_CODES.get(code) or code.decode(errors="replace"))
        at += size
    return found
