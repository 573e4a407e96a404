"""`mqctl broker wipe-write-perm`, `add-write-perm`, `drain` and `undrain`: take a broker out of use, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import BrokerName
from mqctl.commands.telling import report_missing
from mqctl.exit import ExitCode
from mqctl.figures import count_text, seconds_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.draining import Drained
    from mqctl.client.admin.everywhere import Answers

COUNTS: Final = [Column("namesrvAddr", "NAME SERVER"), Column("topics", show=count_text)]


@app.command("wipe-write-perm", cls=AdminCommand)
def wipe_write_perm(
    ctx: typer.Context, name: BrokerName, yes: YesOption = False, dry_run: DryRunOption = False
) -> None:
    """Take the write permission off all topics of a broker, at all name servers.

    Producers go elsewhere once they ask for the route again, within 30 seconds. Name servers forget it when the broker
    registers a changed topic or starts anew; see `mqctl broker drain`.

    \b
    Example:
      mqctl broker wipe-write-perm broker-a --yes
    """
    _set_writable(session_of(ctx), name, writable=False, yes=yes, dry_run=dry_run)


@app.command("add-write-perm", cls=AdminCommand)
def add_write_perm(ctx: typer.Context, name: BrokerName, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """Give all topics of a broker read and write permission, at all name servers.

    All: also those that were meant to be read only, until the broker registers again.

    \b
    Example:
      mqctl broker add-write-perm broker-a --yes
    """
    _set_writable(session_of(ctx), name, writable=True, yes=yes, dry_run=dry_run)


@app.command(cls=AdminCommand)
def undrain(ctx: typer.Context, name: BrokerName, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """Let producers write to a broker again that was drained.

    \b
    Example:
      mqctl broker undrain broker-a --yes
    """
    _set_writable(session_of(ctx), name, writable=True, yes=yes, dry_run=dry_run)


def _set_writable(session: Session, name: str, *, writable: bool, yes: bool, dry_run: bool) -> None:
    servers = session.ask(lambda admin: _check(admin, name))
    if dry_run:
        session.print_rows([COUNTS[0]], [{"namesrvAddr": address} for address in servers])
        return
    words = "Let producers write to" if writable else "Keep producers from writing to"
    confirm(session, f"{words} all topics of {name}, at {', '.join(servers)}. Go on?", yes)
    answers = session.ask(lambda admin: _at_all(admin, name, writable))
    session.print_rows(COUNTS, [{"namesrvAddr": at, "topics": count} for at, count in answers.given.items()])
    report_missing(session, answers.failed)


async def _check(admin: Admin, name: str) -> list[str]:
    """The name servers. Raises NotFound for a broker that has not registered: they would answer 0 topics."""
    from mqctl.client.admin.brokers import find_instances
    from mqctl.errors import NotFound

    found = find_instances(await admin.cluster_info(), None, name)
    if all(instance.broker_name != name for instance in found) or not found[0].cluster:
        raise NotFound(f"there is no broker named {name}", hint="give its name, not its address")
    return admin.name_server_addresses


async def _at_all(admin: Admin, name: str, writable: bool) -> Answers[int]:
    from mqctl.client.admin.brokers import set_writable
    from mqctl.client.admin.everywhere import ask_all

    servers = {address: address for address in admin.name_server_addresses}
    return await ask_all(servers, lambda address: set_writable(admin, address, name, writable=writable))


# -- drain ----------------------------------------------------------------------------------------------

STATE: Final = [
    Column("brokerName", "BROKER"),
    Column("putTotal", "PUT SO FAR", count_text),
    Column("quietSeconds", "QUIET FOR", seconds_text),
    Column("behind", "NOT CONSUMED", count_text),
    Column("safe"),
]


@app.command(cls=AdminCommand)
def drain(
    ctx: typer.Context,
    name: BrokerName,
    quiet: Annotated[
        float, typer.Option("--quiet", min=0, metavar="SECONDS", help="How long nothing must arrive.")
    ] = 35.0,
    consumed: Annotated[
        bool, typer.Option("--consumed", help="Wait as well until all groups have consumed what is there.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Take a broker out of use before an upgrade: keep producers away, wait until nothing arrives, say when it is safe.

    Producers look at routes every 30 seconds, so it takes a little longer than that. Ctrl-C stops waiting and leaves
    producers away; run it again to go on waiting, or `mqctl broker undrain` to end it. Messages that are not consumed
    yet are safe on the broker's disk; with --consumed nobody has to wait for them while it is down.

    \b
    Examples:
      mqctl broker drain broker-a --dry-run
      mqctl broker drain broker-a --consumed --yes
    """
    session = session_of(ctx)
    session.ask(lambda admin: _check(admin, name))
    if not dry_run:
        confirm(session, f"Keep producers from writing to all topics of {name}, and wait. Go on?", yes)
    last: list[Drained] = []

    def tell(state: Drained) -> None:
        last[:] = [state]
        session.env.say(
            f"{name}: {count_text(state.put_total)} messages put, quiet for {state.quiet_seconds:.0f} s, "
            f"{count_text(state.behind)} not consumed"
        )

    async def work(admin: Admin) -> None:
        from mqctl.client.admin.draining import drain

        await drain(admin, name, quiet_seconds=quiet, until_consumed=consumed, tell=tell, dry_run=dry_run)

    try:
        session.ask(work)
    except KeyboardInterrupt:
        session.env.say(f"stopped waiting; producers are kept away until `mqctl broker undrain {name}`")
        raise typer.Exit(ExitCode.REFUSED) from None
    state = last[0]
    row = {
        "brokerName": name,
        "putTotal": state.put_total,
        "quietSeconds": round(state.quiet_seconds, 1),
        "behind": state.behind,
        "safe": not dry_run,
    }
    session.print_rows(STATE, [row])
    if not dry_run:
        session.env.say(f"{name} can be stopped now; it takes messages again when it starts anew, or after undrain")
