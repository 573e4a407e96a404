"""`mqctl analyze check`, `diff`: whether a store is whole, and whether another one is its copy."""

from __future__ import annotations

from typing import Annotated

import typer

from mqctl.commands.analyze.places import location
from mqctl.commands.analyze.running import run_job
from mqctl.commands.analyze.shared import JobCommand, PairCommand, app, options_of
from mqctl.commands.common import session_of


@app.command(cls=JobCommand)
def check(ctx: typer.Context) -> None:
    """Check log, queues and index against each other; the exit status is 1 if something is damaged.

    For a single store on this machine `mqctl store verify` says more, and `mqctl store repair` mends it.

    \b
    Examples:
      mqctl analyze check --store ~/store
      mqctl analyze check --store '/mnt/brokers/*' --master spark://spark:7077 -o json
    """
    run_job(ctx, "check")


@app.command(cls=PairCommand)
def diff(
    ctx: typer.Context,
    store: Annotated[str, typer.Argument(metavar="A", help="A store folder or URI, such as the master's.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The one to compare with it, such as a slave's.")],
) -> None:
    """Show what the second of two stores of one broker group lacks; the exit status is 1 if they differ.

    \b
    Examples:
      mqctl analyze diff /mnt/broker-a/store /mnt/broker-a-slave/store
      mqctl analyze diff s3://backup/broker-a /var/lib/mqctl/store -o json
    """
    here = options_of(ctx).deploy_mode != "cluster"
    run_job(ctx, "diff", stores=(store,), other=location(session_of(ctx), other, here))
