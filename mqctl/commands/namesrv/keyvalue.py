"""`mqctl namesrv kv`: the small table that name servers keep, by namespace and key."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.namesrv.running import app
from mqctl.commands.storing import store
from mqctl.output import Column

kv = noun("Show and change what name servers keep by namespace and key.")
app.add_typer(kv, name="kv")

NamespaceArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="ORDER_TOPIC_CONFIG is that of ordered topics.")
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY")]

ENTRIES: Final = [Column("namespace"), Column("key"), Column("value")]


@kv.command(cls=AdminCommand)
def get(ctx: typer.Context, namespace: NamespaceArgument, key: KeyArgument) -> None:
    """Show one value.

    \b
    Example:
      mqctl namesrv kv get ORDER_TOPIC_CONFIG orders
    """
    from mqctl.errors import NotFound

    session = session_of(ctx)
    value = session.ask(lambda admin: admin.kv_config(namespace, key))
    if value is None:
        raise NotFound(f"nothing is stored under {namespace} {key}")
    session.print_rows(ENTRIES, [{"namespace": namespace, "key": key, "value": value}])


@kv.command("list", cls=AdminCommand)
def list_entries(ctx: typer.Context, namespace: NamespaceArgument) -> None:
    """List all keys of a namespace.

    \b
    Example:
      mqctl namesrv kv list ORDER_TOPIC_CONFIG
    """
    session = session_of(ctx)
    table = session.ask(lambda admin: admin.kv_list(namespace))
    rows = [{"namespace": namespace, "key": key, "value": value} for key, value in sorted(table.items())]
    session.print_rows(ENTRIES, rows)


@kv.command(cls=AdminCommand)
def put(
    ctx: typer.Context,
    namespace: NamespaceArgument,
    key: KeyArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE")],
    dry_run: DryRunOption = False,
) -> None:
    """Store a value, at all name servers.

    \b
    Example:
      mqctl namesrv kv put ORDER_TOPIC_CONFIG orders 'broker-a:8;broker-b:8'
    """
    _put(session_of(ctx), namespace, key, value, dry_run)


@kv.command(cls=AdminCommand)
def delete(
    ctx: typer.Context,
    namespace: NamespaceArgument,
    key: KeyArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget a value, at all name servers.

    \b
    Example:
      mqctl namesrv kv delete ORDER_TOPIC_CONFIG orders --yes
    """
    session = session_of(ctx)
    if not dry_run:
        confirm(session, f"Delete {namespace} {key} at {session.name_servers}. Go on?", yes)
    _put(session, namespace, key, None, dry_run)


def _put(session: Session, namespace: str, key: str, value: str | None, dry_run: bool) -> None:
    shown = {"namespace": namespace, "key": key}
    store(session, namespace, key, value, shown=shown, what=f"setting of {namespace} {key}", dry_run=dry_run)
