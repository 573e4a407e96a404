"""`mqctl undo`: put back what a command changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl import journal
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of, single
from mqctl.commands.telling import report_missing
from mqctl.errors import ConfigError, MqError, NotFound
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.restoring import Restored
    from mqctl.journal import Entry

app = single()

LIST: Final = "list"

ENTRIES: Final = [
    Column("id"),
    Column("timestamp", "TIME", time_text),
    Column("nameServers", "NAME SERVERS"),
    Column("kind"),
    Column("summary", "WHAT"),
    Column("changes"),
    Column("undone"),
]
# What does not tell one changed thing from another, or not to people.
UNNAMED: Final = {"before", "after", "brokerName", "kind"}
CHANGES: Final = [Column("thing"), Column("now"), Column("before", "TO BE"), Column("note")]


@app.command(cls=AdminCommand)
def undo(
    ctx: typer.Context,
    what: Annotated[
        str | None, typer.Argument(metavar="[ID|list]", help="Which change, as `mqctl undo list` numbers them.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what somebody else changed again since.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Put back what a command of mine changed: the last one, or the one with this number.

    Offsets, groups, topics' and brokers' settings go back to what they were. Messages that were deleted do not come
    back. An undo is a change like any other and can be undone; one that was done in part can be tried again.

    \b
    Examples:
      mqctl undo list
      mqctl undo --dry-run
      mqctl undo 12 --yes
    """
    session = session_of(ctx)
    if what == LIST:
        session.print_rows(ENTRIES, [_entry_row(entry) for entry in reversed(journal.entries(session.env))])
        return
    entry = _find(session, what)
    # A change belongs to its cluster, whichever is the current one now.
    session.namesrv = entry.name_servers
    _undo(session, entry, force=force, yes=yes, dry_run=dry_run)


def _find(session: Session, what: str | None) -> Entry:
    found = journal.entries(session.env)
    if what is None:
        left = [entry for entry in found if not entry.undone]
        if not left:
            raise NotFound("there is nothing to undo")
        return left[-1]
    entry = next((entry for entry in found if str(entry.id) == what), None)
    if entry is None:
        raise NotFound(f"there is no change {what} to undo", hint="see `mqctl undo list`")
    if entry.undone:
        raise ConfigError(f"{what} is undone already")
    return entry


def _undo(session: Session, entry: Entry, *, force: bool, yes: bool, dry_run: bool) -> None:
    async def look(admin: Admin) -> list[Restored]:
        from mqctl.client.admin.restoring import look

        return await look(admin, entry)

    async def put_back(admin: Admin) -> None:
        from mqctl.client.admin.restoring import put_back

        await put_back(admin, entry, found)

    found = session.ask(look)
    overtaken = [restored for restored in found if restored.overtaken]
    if not dry_run:
        if overtaken and not force:
            raise ConfigError(
                f"{len(overtaken)} of {len(found)} things were changed again since: {_thing(overtaken[0].change)}",
                hint="see --dry-run; --force puts them back all the same",
            )
        going = [restored for restored in found if restored.error is None]
        confirm(session, f"Undo {entry.id}, the {entry.summary}: {len(going)} things go back. Go on?", yes)
        session.ask(put_back)
    session.print_rows(CHANGES, [_change_row(restored) for restored in found])
    if not dry_run:
        _finish(session, entry, found)
    report_missing(session, _failed(found))


def _finish(session: Session, entry: Entry, found: list[Restored]) -> None:
    """Into the journal. The entry is undone when there is nothing left that a second attempt could put back."""
    from mqctl.client.admin.restoring import Impossible

    failed = _failed(found)
    done = [restored for restored in found if restored.done]
    if not done:
        raise next(iter(failed.values()))
    back = [{**restored.change, "before": restored.now, "after": restored.change["before"]} for restored in done]
    journal.record(session.env, entry.name_servers, entry.kind, f"undo of {entry.id}, the {entry.summary}", back)
    if all(isinstance(error, Impossible) for error in failed.values()):
        journal.mark_undone(session.env, entry.id)
    else:
        session.env.say(f"`mqctl undo {entry.id}` goes on with the rest")


def _failed(found: list[Restored]) -> dict[str, MqError]:
    return {_thing(restored.change): restored.error for restored in found if restored.error is not None}


def _entry_row(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "timestamp": entry.timestamp,
        "nameServers": entry.name_servers,
        "kind": entry.kind,
        "summary": entry.summary,
        "changes": len(entry.changes),
        "undone": entry.undone,
    }


def _change_row(restored: Restored) -> dict[str, Any]:
    note = "changed again since" if restored.overtaken else ""
    return {
        "thing": _thing(restored.change),
        "now": restored.now,
        "before": restored.change["before"],
        "note": restored.error.message if restored.error is not None else note,
    }


def _thing(change: dict[str, Any]) -> str:
    return " ".join(str(value) for name, value in change.items() if name not in UNNAMED)
