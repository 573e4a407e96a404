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
    if _answer(session, question) not in ("y", "yes"):
        session.env.say("nothing was changed")
        raise typer.Exit(ExitCode.REFUSED)


def _answer(session: Session, question: str) -> str:
    """Ctrl-C and Ctrl-D are a no; they leave the cursor behind the question."""
    try:
        session.env.stderr.write(f"{question} [y/N] ")
        session.env.stderr.flush()
        line = session.env.stdin.readline()
    except KeyboardInterrupt:
        line = ""
    if not line.endswith("\n"):
        session.env.say("")
    return line.strip().lower()
