"""Storing a value at all name servers: what `namesrv kv` and `topic order` share, from the change to the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqctl.commands.common import Session
from mqctl.commands.telling import report_missing
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.errors import MqError


def store(
    session: Session, namespace: str, key: str, value: str | None, *, shown: dict[str, str], what: str, dry_run: bool
) -> None:
    """None deletes the key. `shown` is what people call the thing, `what` is for the journal. Ends the program as done
    in part if only some name servers took it."""
    from mqctl import journal

    async def change(admin: Admin) -> tuple[str | None, dict[str, MqError]]:
        before = await admin.kv_config(namespace, key)
        return before, {} if dry_run else await admin.put_kv_config(namespace, key, value)

    before, failed = session.ask(change)
    columns = [*map(Column, shown), Column("before"), Column("after")]
    session.print_rows(columns, [{**shown, "before": before, "after": value}])
    if not dry_run:
        entry = journal.change(before, value, namespace=namespace, key=key)
        journal.record(session.env, session.name_servers, "kv", what, [entry])
    report_missing(session, failed)
