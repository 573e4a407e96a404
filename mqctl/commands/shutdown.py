"""`mqctl shutdown`: stop servers that run on this machine, as RocketMQ's mqshutdown does."""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.common import Session, session_of, single
from mqctl.errors import MqError, NotFound, RequestTimeout

if TYPE_CHECKING:
    import psutil

app = single()


class Kind(StrEnum):
    NAMESRV = "namesrv"
    BROKER = "broker"


@app.command()
def shutdown(
    ctx: typer.Context,
    kind: Annotated[Kind, typer.Argument(help="Which servers. A standalone process counts as both.")],
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, metavar="PORT", help="Only the one that listens here.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait until they are gone.")
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which processes would be stopped.")] = False,
) -> None:
    """Stop name servers or brokers that run on this machine.

    Finds the mqctl processes of this user, prints each process id, sends SIGTERM and waits until they are gone.

    \b
    Examples:
      mqctl shutdown broker --dry-run
      mqctl shutdown broker
      mqctl shutdown namesrv --port 9876
    """
    from mqctl.processes import find_servers

    session = session_of(ctx)
    found = find_servers(kind.value, port)
    if not found:
        where = "" if port is None else f" that listens on port {port}"
        raise NotFound(f"no {kind.value} of this user{where} runs on this machine")
    if dry_run:
        for process in found:
            print(f"would stop {kind.value} {process.pid}", file=session.env.stdout)
        return
    for process in found:
        print(f"stopping {kind.value} {process.pid}", file=session.env.stdout, flush=True)
        _terminate(process)
    _wait(session, found, wait)


def _terminate(process: psutil.Process) -> None:
    try:
        os.kill(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # gone in the meantime, which is what we want
    except PermissionError:
        raise MqError(f"not allowed to stop process {process.pid}") from None


def _wait(session: Session, processes: list[psutil.Process], seconds: float) -> None:
    import psutil

    _, alive = psutil.wait_procs(processes, timeout=seconds)
    if alive:
        pids = " ".join(str(process.pid) for process in alive)
        raise RequestTimeout(
            f"still running after {seconds:g} s: {pids}",
            hint=f"wait and look again, or end it without saving: kill -9 {pids}",
        )
    print("stopped", file=session.env.stdout)
