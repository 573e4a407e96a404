"""`mqctl monitor`: looks after a cluster and tells what begins to go wrong, and what is well again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of, single
from mqctl.commands.completing import complete_groups
from mqctl.commands.selecting import ClusterOption
from mqctl.exit import ExitCode
from mqctl.output import Column, Row
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.monitoring import Event, Monitor

app = single()

EVENTS: Final = [Column(name) for name in ("timestamp", "event", "kind", "subject", "detail")]


@app.command(cls=AdminCommand)
def monitor(
    ctx: typer.Context,
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", autocompletion=complete_groups)] = None,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look.")] = 60.0,
    max_lag: Annotated[
        int, typer.Option("--max-lag", min=0, metavar="N", help="Messages that a group may be behind in a topic.")
    ] = 10_000,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0, metavar="S", help="For how long a message may wait.")
    ] = 300.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once; the exit status is 8 if something is wrong.")
    ] = False,
    cluster: ClusterOption = None,
) -> None:
    """Look after a cluster, and write a line when something begins to go wrong or is well again.

    Groups that are behind; clients that subscribe otherwise than their group, or do not get on with messages that they
    have in hand; new dead letters; messages that were deleted before a group consumed them; brokers that do not answer
    or have no master; name servers that are gone. Nothing is written while nothing changes. Goes on until Ctrl-C.

    \b
    Examples:
      mqctl monitor
      mqctl monitor order-service --max-lag 1000 --every 10 -o json
      mqctl monitor --once --max-seconds 60
    """
    from mqctl.client.admin.monitoring import Limits, Monitor

    session = session_of(ctx)
    watching = Monitor(Limits(max_lag, max_seconds), cluster, groups or ())
    try:
        session.ask(lambda admin: _rounds(session, admin, watching, None if once else every))
    except KeyboardInterrupt:
        raise typer.Exit from None
    if watching.troubles:
        raise typer.Exit(ExitCode.ALERT)


async def _rounds(session: Session, admin: Admin, watching: Monitor, every: float | None) -> None:
    import asyncio

    write = session.stream(EVENTS, _line)
    while True:
        now_ms = int(session.env.clock() * 1000)
        for event in await watching.round(admin, now_ms):
            write(_row(event, now_ms))
        if every is None:
            return
        await asyncio.sleep(every)


def _row(event: Event, now_ms: int) -> dict[str, Any]:
    return {
        "timestamp": now_ms,
        "event": event.what,
        "kind": event.kind,
        "subject": event.subject,
        "detail": event.detail,
    }


def _line(row: Row) -> str:
    return f"{time_text(row['timestamp'])}  {row['event']:<6}  {row['kind']:<7}  {row['subject']}: {row['detail']}"
