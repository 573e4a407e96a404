"""`mqctl broker wipe-write-perm`, `add-write-perm`, `drain` and `undrain`: take a broker out of use, and back."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import BrokerName
from mqctl.commands.telling import report_missing, tell_missing
from mqctl.errors import MqError, RequestTimeout
from mqctl.exit import ExitCode
from mqctl.figures import count_text, rate_text, seconds_text
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


def _growing_text(growing: dict[str, float]) -> str:
    return ", ".join(f"{topic} {rate_text(rate)}/s" for topic, rate in islice(growing.items(), NAMED)) or "-"


# Who still writes shows in the topics that grow the most.
NAMED: Final = 5
STATE: Final = [
    Column("brokerName", "BROKER"),
    Column("putTotal", "PUT SO FAR", count_text),
    Column("putTps", "PUT/S", rate_text),
    Column("growing", show=_growing_text),
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
    wait: Annotated[
        float | None, typer.Option("--wait", min=0, metavar="SECONDS", help="Give up after so long; without it, never.")
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Take a broker out of use before an upgrade: keep producers away, wait until nothing arrives, say when it is safe.

    Producers look at routes every 30 seconds, so it takes a little longer than that. Ctrl-C stops waiting and leaves
    producers away; run it again to go on waiting, or `mqctl broker undrain` to end it. Messages that are not consumed
    yet are safe on the broker's disk; with --consumed nobody has to wait for them while it is down.

    What the broker itself puts keeps it from being quiet as well: retries, and messages whose delay is over. The topics
    that grow are named. With --wait it gives up after that time, with the exit status 4; producers stay away.

    \b
    Examples:
      mqctl broker drain broker-a --dry-run
      mqctl broker drain broker-a --consumed --wait 600 --yes
    """
    session = session_of(ctx)
    session.ask(lambda admin: _check(admin, name))
    if not dry_run:
        confirm(session, f"Keep producers from writing to all topics of {name}, and wait. Go on?", yes)
    kept_away = f"producers are kept away until `mqctl broker undrain {name}`"
    looked = False

    def tell(state: Drained) -> None:
        nonlocal looked
        looked = True
        session.env.say(_state_text(name, state))

    async def work(admin: Admin) -> Drained:
        from mqctl.client.admin.draining import drain

        return await drain(
            admin,
            name,
            quiet_seconds=quiet,
            until_consumed=consumed,
            wait_seconds=wait,
            tell=tell,
            dry_run=dry_run,
        )

    try:
        state = session.ask(work)
    except KeyboardInterrupt:
        session.env.say(f"stopped waiting; {kept_away}")
        raise typer.Exit(ExitCode.REFUSED) from None
    except MqError:
        if looked:
            session.env.say(f"stopped waiting; {kept_away}")
        raise
    session.print_rows(STATE, [_state_row(name, state, safe=state.done and not dry_run)])
    if not state.done:
        tell_missing(session, state.untold)
        raise RequestTimeout(f"{name} is not drained after {wait:g} s", hint=f"{kept_away}; run it again to go on")
    if not dry_run:
        session.env.say(f"{name} can be stopped now; it takes messages again when it starts anew, or after undrain")
    report_missing(session, state.untold)


def _state_text(name: str, state: Drained) -> str:
    growing = f"; growing: {_growing_text(state.growing)}" if state.growing else ""
    return (
        f"{name}: {count_text(state.put_total)} messages put, {rate_text(state.per_second)}/s, "
        f"quiet for {state.quiet_seconds:.0f} s, {count_text(state.behind)} not consumed{growing}"
    )


def _state_row(name: str, state: Drained, *, safe: bool) -> dict[str, Any]:
    return {
        "brokerName": name,
        "putTotal": state.put_total,
        "putTps": round(state.per_second, 2),
        "growing": {topic: round(rate, 2) for topic, rate in state.growing.items()},
        "quietSeconds": round(state.quiet_seconds, 1),
        "behind": state.behind,
        "safe": safe,
    }
