"""`mqctl context`: names for clusters."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption
from mqctl.commands.common import LocalCommand, LocalGroup, Session, complete_contexts, noun, session_of
from mqctl.contexts import VARIABLE, Contexts, load
from mqctl.output import Column

app = noun("Give clusters names, and choose the one that commands are for.", cls=LocalGroup)

CONTEXTS: Final = [Column("current", show=lambda current: "*" if current else ""), Column("name"), Column("namesrv")]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_contexts)]


@app.command("add", cls=LocalCommand, hidden=True)  # what it was called first
@app.command("set", cls=LocalCommand)
def set_context(
    ctx: typer.Context,
    name: NameArgument,
    namesrv: Annotated[str, typer.Option("-n", "--namesrv", metavar="ADDR[;ADDR]", help="Its name servers.")],
    use: Annotated[bool, typer.Option("--use", help="Make it the current one.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Name a cluster, or give a name other name servers. The first one becomes the current one.

    \b
    Example:
      mqctl context set prod --namesrv '10.0.0.1:9876;10.0.0.2:9876'
    """
    from mqctl.remoting.pool import split_address, split_addresses

    addresses = split_addresses(namesrv)
    for address in addresses:
        split_address(address)
    if not name or not addresses:
        raise typer.BadParameter("a context has a name and at least one address")
    session = session_of(ctx)
    contexts = _load(session)
    contexts.name_servers[name] = ";".join(addresses)
    if use or contexts.current is None:
        contexts.current = name
    if not dry_run:
        contexts.save()
    _print(session, contexts, name)


@app.command(cls=LocalCommand)
def use(ctx: typer.Context, name: NameArgument, dry_run: DryRunOption = False) -> None:
    """Make a context the current one.

    \b
    Example:
      mqctl context use prod
    """
    session = session_of(ctx)
    contexts = _load(session)
    contexts.find(name)
    contexts.current = name
    if not dry_run:
        contexts.save()
    _print(session, contexts, name)
    for variable in (VARIABLE, "NAMESRV_ADDR"):
        if session.env.variables.get(variable):
            session.env.say(f"warning: the variable {variable} is set and goes before the current context")


@app.command("list", cls=LocalCommand)
def list_contexts(ctx: typer.Context) -> None:
    """List contexts.

    \b
    Example:
      mqctl context list
    """
    session = session_of(ctx)
    contexts = _load(session)
    _print(session, contexts, *sorted(contexts.name_servers))


@app.command(cls=LocalCommand)
def show(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_contexts)] = None,
) -> None:
    """Show a context, or the name servers that commands would talk to now.

    \b
    Examples:
      mqctl context show
      mqctl context show prod -o json
    """
    session = session_of(ctx)
    contexts = _load(session)
    if name is not None:
        contexts.find(name)
        _print(session, contexts, name)
    else:
        session.print_rows([Column("namesrv")], [{"namesrv": session.name_servers}])


@app.command(cls=LocalCommand)
def delete(ctx: typer.Context, name: NameArgument, dry_run: DryRunOption = False) -> None:
    """Forget a context. Nothing happens to the cluster.

    \b
    Example:
      mqctl context delete prod
    """
    session = session_of(ctx)
    contexts = _load(session)
    contexts.find(name)
    if dry_run:
        _print(session, contexts, name)
        return
    del contexts.name_servers[name]
    if contexts.current == name:
        contexts.current = None
    contexts.save()


def _load(session: Session) -> Contexts:
    return load(session.env.variables)


def _print(session: Session, contexts: Contexts, *names: str) -> None:
    rows: list[dict[str, Any]] = [
        {"current": name == contexts.current, "name": name, "namesrv": contexts.name_servers[name]} for name in names
    ]
    session.print_rows(CONTEXTS, rows)
