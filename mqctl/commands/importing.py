"""Making topics and groups like a file says: what commands share that do so, from the question to the journal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqctl import journal
from mqctl.commands.changing import confirm
from mqctl.commands.common import Session
from mqctl.commands.telling import Counting, report_missing
from mqctl.errors import ConfigError
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin.importing import Change

IMPORTED: Final = [
    Column("kind"),
    Column("name"),
    Column("brokerName", "BROKER"),
    Column("changed", show=lambda changed: ", ".join(changed)),
    Column("before", wide=True),
    Column("after", wide=True),
]
# In the words of people.
KINDS: Final = {"topic": "topic", "group": "group", "kv": "order"}


def read_document(session: Session, file: Path) -> Any:
    """What a file of JSON or YAML holds; - is stdin. Raises ConfigError."""
    import yaml

    from mqctl.remoting import fastjson

    try:
        data = session.env.stdin.read().encode() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    try:
        return fastjson.loads(data)
    except (fastjson.FastjsonError, UnicodeDecodeError):
        pass
    try:
        return yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is neither JSON nor YAML: {' '.join(str(error).split())}") from None


def carry_out(session: Session, changes: list[Change], *, yes: bool, dry_run: bool) -> None:
    """Asks, does, prints, and writes into the journal."""
    if changes and not dry_run:
        confirm(session, f"{_summary(changes)} on {', '.join(_brokers(changes))}. Go on?", yes)
        _do(session, changes)
    done = [change for change in changes if change.error is None]
    session.print_rows(IMPORTED, [_row(change) for change in done])
    session.env.say(_summary(done) if done else "nothing differs" if not changes else "nothing was changed")
    failed = {f"{one.name} on {one.broker_name}": one.error for one in changes if one.error is not None}
    report_missing(session, failed | {at: error for one in changes for at, error in one.untold.items()})


def _do(session: Session, changes: list[Change]) -> None:
    from mqctl.client.admin import importing
    from mqctl.client.admin.topics import ORDER_NAMESPACE

    with Counting(session, "changed", len(changes)) as told:
        session.ask(lambda admin: importing.carry_out(admin, changes, told))
    for kind in KINDS:
        entries = [
            journal.change(one.before, one.after, namespace=ORDER_NAMESPACE, key=one.name)
            if kind == "kv"
            else journal.change(one.before, one.after, brokerAddr=one.address, **{kind: one.name})
            for one in changes
            if one.kind == kind and one.error is None
        ]
        what = f"import of {len(entries)} {KINDS[kind]}s"
        journal.record(session.env, session.name_servers, kind, what, entries)


def _brokers(changes: list[Change]) -> list[str]:
    return sorted({change.broker_name for change in changes if change.broker_name}) or ["the name servers"]


def _summary(changes: list[Change]) -> str:
    counts = Counter(("create" if one.before is None else "change", KINDS[one.kind]) for one in changes)
    return ", ".join(f"{verb} {number} {what}s" for (verb, what), number in sorted(counts.items())) or "nothing"


def _row(change: Change) -> dict[str, Any]:
    return {
        "kind": KINDS[change.kind],
        "name": change.name,
        "brokerName": change.broker_name or None,
        "changed": _differences(change),
        "before": change.before,
        "after": change.after,
    }


def _differences(change: Change) -> list[str]:
    before, after = change.before, change.after
    if not isinstance(after, dict):
        return [f"{before or '-'} -> {after or '-'}"]
    if not isinstance(before, dict):
        return ["new"]
    return [f"{key} {before.get(key)} -> {value}" for key, value in after.items() if before.get(key) != value]
