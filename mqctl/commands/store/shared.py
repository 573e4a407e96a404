"""What the commands about store folders share: naming a folder, opening it, sizes, times, progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.common import LocalGroup, Session, noun
from mqctl.figures import size_text
from mqctl.output import Column, Format, Row
from mqctl.times import parse_time

if TYPE_CHECKING:
    from mqctl.store.offline.folder import StoreFolder

app = noun("Look into a store folder, check it, repair it, move messages; no broker is needed.", cls=LocalGroup)

DirArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder storePathRootDir names: the one that holds commitlog.")
]
CommitlogOption = Annotated[
    Path | None,
    typer.Option("--commitlog", metavar="DIR", help="The log's folder, where storePathCommitLog names another."),
]
SinceOption = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Stored then or later.")]
UntilOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Stored before.")]

# Progress is shown when something takes longer than this, and then this often.
PROGRESS_S: Final = 1.0
_WIDTH: Final = 60


def open_store(directory: Path, commitlog: Path | None) -> StoreFolder:
    from mqctl.store.offline.folder import StoreFolder

    return StoreFolder(directory, commitlog)


def time_option(session: Session, text: str | None, option: str) -> int | None:
    try:
        return None if text is None else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def print_one(session: Session, columns: list[Column], row: Row) -> None:
    """One thing with many members: for people one member per line."""
    if session.output in (None, Format.TABLE, Format.WIDE):
        lines = [{"field": column.name, "value": column.text(row)} for column in columns]
        session.print_rows([Column("field"), Column("value")], lines)
    else:
        session.stream(columns, str)(row)


class Progress:
    """Says on a terminal how far the work is, in one line that changes; elsewhere it is silent. `verb` is what has
    been done with the bytes that are told."""

    def __init__(self, session: Session, verb: str) -> None:
        self._env = session.env
        self._verb = verb
        self._next = self._env.clock() + PROGRESS_S
        self._terminal = self._env.stderr.isatty()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        now = self._env.clock()
        if not self._terminal or now < self._next:
            return
        self._next = now + PROGRESS_S
        self._shown = True
        percent = f" ({done / total:.0%})" if total else ""
        self._write(f"{self._verb} {size_text(done)} of {size_text(total)}{percent}")

    def clear(self) -> None:
        """Before anything else is printed."""
        if self._shown:
            self._shown = False
            self._write("")

    def _write(self, text: str) -> None:
        self._env.stderr.write(f"\r{text:<{_WIDTH}}" + ("" if text else "\r"))
        self._env.stderr.flush()
