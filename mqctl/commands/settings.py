"""Settings of servers: what `mqctl broker config` and `mqctl namesrv config` share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl import journal
from mqctl.commands.changing import confirm
from mqctl.commands.common import Session
from mqctl.commands.telling import report_missing
from mqctl.errors import NotFound
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin.brokers import SettingChange
    from mqctl.client.admin.everywhere import Answers

SETTINGS: Final = [Column("server"), Column("key"), Column("value")]
CHANGES: Final = [
    Column("server"),
    Column("brokerAddr", "ADDRESS"),
    Column("key"),
    Column("before"),
    Column("after"),
]

KeysArgument = Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these.")]
PairsArgument = Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")]


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key.strip() or not separator:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def show_settings(session: Session, answers: Answers[dict[str, str]], keys: list[str] | None) -> None:
    from mqctl.client.admin.everywhere import guess

    known = {key for settings in answers.given.values() for key in settings}
    for key in keys or ():
        if key not in known:
            raise NotFound(f"there is no setting {key}", hint=guess(key, known))
    rows = [
        {"server": name, "key": key, "value": value}
        for name, settings in answers.given.items()
        for key, value in sorted(settings.items())
        if not keys or key in keys
    ]
    session.print_rows(SETTINGS, rows)
    report_missing(session, answers.failed)


def ask_before(session: Session, wanted: Mapping[str, str], servers: Iterable[str], yes: bool) -> None:
    pairs = ", ".join(f"{key}={value}" for key, value in wanted.items())
    confirm(session, f"Set {pairs} at {', '.join(servers)}. Go on?", yes)


def finish(session: Session, kind: str | None, changes: list[SettingChange]) -> None:
    """Prints what changed and journals it as `kind`; None is a dry run."""
    done = [change for change in changes if change.error is None]
    failed = {f"{change.server} {change.key}": change.error for change in changes if change.error is not None}
    if failed and not done:
        raise next(iter(failed.values()))
    session.print_rows(CHANGES, [_row(change) for change in done])
    if kind is not None:
        entries = [
            journal.change(change.before, change.after, brokerAddr=change.address, key=change.key) for change in done
        ]
        keys = ", ".join(dict.fromkeys(change.key for change in done))
        journal.record(session.env, session.name_servers, kind, f"setting of {keys}", entries)
    report_missing(session, failed)


def _row(change: SettingChange) -> dict[str, Any]:
    return {
        "server": change.server,
        "brokerAddr": change.address,
        "key": change.key,
        "before": change.before,
        "after": change.after,
    }
