"""A picture of `mqctl top`: three tables that share the height of the terminal, or what is behind one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqctl.commands.top.state import COLUMNS, DETAILS, TITLES, Panel, State
from mqctl.output import Column, Row

HELP = "Tab table  ↑↓ line  s sort  r reverse  Enter look into  Esc back  p pause  q quit"

# A table's title and head.
_HEAD_LINES = 2


def picture(
    state: State, rows: Mapping[Panel, Sequence[Row]], detail: Sequence[Row], status: str, height: int
) -> RenderableType:
    """`rows` in the order to be shown. Lines that have no room are left out around the chosen one."""
    room = height - 2  # status and help
    parts: list[RenderableType] = [Text(status, style="bold", no_wrap=True, overflow="ellipsis")]
    if state.detail is not None:
        columns = DETAILS[state.panel]
        title = f"{TITLES[state.panel]}: {COLUMNS[state.panel][0].text(state.detail)}"
        parts.append(_table(title, columns, detail, state.line, room - _HEAD_LINES, None))
    else:
        for panel, lines in _shares(rows, room).items():
            chosen = state.line if panel is state.panel else None
            parts.append(_table(TITLES[panel], COLUMNS[panel], rows[panel], chosen, lines, state.sorts[panel]))
    parts.append(Text(HELP, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _shares(rows: Mapping[Panel, Sequence[Row]], room: int) -> dict[Panel, int]:
    """How many lines each table gets: brokers what they need up to a third, the others half of the rest each, or more
    where one of them does not need it."""
    free = max(0, room - len(Panel) * _HEAD_LINES)
    brokers = min(len(rows[Panel.BROKERS]), max(1, free // 3))
    rest = max(0, free - brokers)
    topics = min(len(rows[Panel.TOPICS]), max(rest // 2, rest - len(rows[Panel.LAGS])))
    return {Panel.BROKERS: brokers, Panel.TOPICS: topics, Panel.LAGS: rest - topics}


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], chosen: int | None, lines: int, sort: str | None
) -> Table:
    table = Table(
        title=f"{title} ({len(rows)})",
        title_justify="left",
        title_style="bold reverse" if chosen is not None else "bold",
        box=None,
        pad_edge=False,
        expand=True,
    )
    for column in columns:
        at_right = any(isinstance(row[column.name], (int, float)) for row in rows)
        mark = " ▾" if column.name == sort else ""
        table.add_column(
            column.title + mark, justify="right" if at_right else "left", no_wrap=True, overflow="ellipsis"
        )
    first = max(0, min((chosen or 0) - lines // 2, len(rows) - lines))
    for number, row in enumerate(rows[first : first + lines], first):
        style = "reverse" if number == chosen else ""
        # Text, because what looks like rich's markup in a name is none.
        table.add_row(*(Text(column.text(row)) for column in columns), style=style)
    return table
