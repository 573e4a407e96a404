"""`mqctl version`."""

from __future__ import annotations

import platform

import typer

from mqctl import __version__
from mqctl.commands.common import session_of, single

app = single()


@app.command()
def version(ctx: typer.Context) -> None:
    """Print the version.

    \b
    Example:
      mqctl version
    """
    print(f"mqctl {__version__} (Python {platform.python_version()})", file=session_of(ctx).env.stdout)
