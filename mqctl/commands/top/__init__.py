"""`mqctl top`: a cluster at a glance, live, in the whole terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from mqctl.commands.common import AdminCommand, session_of, single
from mqctl.errors import ConfigError

app = single()


@app.command(cls=AdminCommand)
def top(
    ctx: typer.Context,
    every: Annotated[
        float, typer.Option("--every", min=0.2, metavar="SECONDS", help="How often the cluster is asked.")
    ] = 2.0,
) -> None:
    """Watch a cluster in the whole terminal: brokers, the busiest topics, the groups that are behind the most.

    Keys: Tab or 1 2 3 choose a table, the arrows or j k a line, s another column to sort by, r the other way round,
    Enter shows what is behind a line, Esc goes back, p holds the picture, q quits. Where there are hundreds of topics,
    the busiest are asked about each time and the others in turn.

    \b
    Examples:
      mqctl top
      mqctl top --every 5 --context prod
    """
    session = session_of(ctx)
    if not session.env.on_terminal or not session.env.stdin.isatty():
        raise ConfigError(
            "top needs a terminal", hint="for programs there are `mqctl lag -o json` and `mqctl cluster list -o json`"
        )
    from mqctl.commands.top.screen import Screen

    session.ask(lambda admin: Screen(session.env, admin, every).run())
