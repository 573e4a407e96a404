"""Plain rows to a table, JSON, YAML or CSV. It imports rich, and only on a terminal.

A row is a dict of plain values under stable names, RocketMQ's where it has one: programs get it as it is, people
get the columns of a table, where a value may be shown in another form (a time instead of milliseconds).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mqctl.env import Environment
from mqctl.figures import FORMS

Row = Mapping[str, Any]

NOTHING: Final = "-"  # a value that is not there, in tables
_GAP: Final = "  "

# Bytes that would move the cursor or ring the bell if a message body could smuggle them to a terminal.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is for programs, `heading` and `show` are for tables, where width is dear. One that is `wide` is in
    tables only when they may be wide."""

    name: str
    heading: str = ""
    show: Callable[[Any], str] | None = None
    wide: bool = False

    @property
    def title(self) -> str:
        """`queueId` reads QUEUE ID where no heading is given."""
        return self.heading or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", self.name).upper()

    def text(self, row: Row) -> str:
        value = row[self.name]
        return visible(self.show(value) if self.show is not None and value is not None else cell_text(value))


def cell_text(value: Any) -> str:
    if value is None or value == [] or value == {} or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return " ".join(f"{name}={cell_text(member)}" for name, member in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(cell_text, value))
    return str(value)


def visible(text: str) -> str:
    """Control characters as escapes, so that what came over the network cannot drive a terminal."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class Output:
    """Writes to `env.stdout`."""

    def __init__(self, env: Environment, format: Format | None) -> None:
        self._env = env
        self._format = format or Format.TABLE

    def rows(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """A whole listing. Without rows a table still has its head, so that one sees what was asked."""
        if self._format is Format.JSON:
            self._write(_json(list(rows), indent=2))
        elif self._format is Format.YAML:
            self._write(_yaml([dict(row) for row in rows]))
        elif self._format is Format.CSV:
            self._write(_csv([[column.name for column in columns], *(_csv_cells(columns, row) for row in rows)]))
        else:
            self._table([column for column in columns if not column.wide or self._format is Format.WIDE], rows)

    def _table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        if self._env.on_terminal:
            _rich_table(self._env, columns, rows)
        else:
            self._write(_plain_table(columns, rows))

    def stream(self, columns: Sequence[Column], line: Callable[[Row], str]) -> Callable[[Row], None]:
        """A function that writes one row at once: as a line of text, a line of JSON, a YAML document or a CSV
        line. `line` makes the text for people."""
        if self._format is Format.JSON:
            return lambda row: self._write(_json(row))
        if self._format is Format.YAML:
            return lambda row: self._write("---\n" + _yaml(dict(row)))
        if self._format is Format.CSV:
            self._write(_csv([[column.name for column in columns]]))
            return lambda row: self._write(_csv([_csv_cells(columns, row)]))
        return lambda row: self._write(visible(line(row)) + "\n")

    def document_text(self, value: Any) -> str:
        """What is no listing: JSON, unless YAML is asked for."""
        return _yaml(value) if self._format is Format.YAML else _json(value, indent=2)

    def _write(self, text: str) -> None:
        self._env.stdout.write(text)
        self._env.stdout.flush()


# -- for programs ---------------------------------------------------------------------------------------


def _json(value: Any, indent: int = 0) -> str:
    import msgspec

    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=indent) if indent else data).decode() + "\n"


def _yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def _csv(lines: Iterable[Sequence[str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _csv_cells(columns: Sequence[Column], row: Row) -> list[str]:
    return [_csv_cell(row[column.name]) for column in columns]


def _csv_cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or value == [] or value == {} else cell_text(value)


# -- for people -----------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _at_right(column: Column, rows: Sequence[Row]) -> bool:
    values = [row[column.name] for row in rows if row[column.name] is not None]
    return (column.show is None or column.show in FORMS) and bool(values) and all(map(_is_number, values))


def _plain_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    cells = [[column.title for column in columns], *([column.text(row) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [_at_right(column, rows) for column in columns]
    lines = []
    for line in cells:
        parts = [
            text.rjust(width) if at_right else text.ljust(width)
            for text, width, at_right in zip(line, widths, right, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip() + "\n")
    return "".join(lines)


def _rich_table(env: Environment, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold" if env.colored else "")
    for column in columns:
        table.add_column(column.title, justify="right" if _at_right(column, rows) else "left", overflow="fold")
    for row in rows:
        # Text, because what looks like rich's markup in a message body is none.
        table.add_row(*(Text(column.text(row)) for column in columns))
    Console(file=env.stdout, no_color=not env.colored, highlight=False).print(table)
