"""What commands that change something share: the options, the question before, the report after."""

from __future__ import annotations

from typing import Annotated

import typer

from mqctl.commands.common import Session
from mqctl.exit import ExitCode

YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]


def confirm(session: Session, question: str, yes: bool) -> None:
    """Ends the program unless a person agrees."""
    if yes:
        return
    if not session.env.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked: give it, or --dry-run", param_hint="--yes")
    session.env.stderr.write(f"{question} [y/N] ")
    session.env.stderr.flush()
    if session.env.stdin.readline().strip().lower() not in ("y", "yes"):
        session.env.say("nothing was changed")
        raise typer.Exit(ExitCode.REFUSED)
