"""`mqctl version`."""

from __future__ import annotations

import platform
from pathlib import Path

import typer

import mqctl
from mqctl.commands.common import session_of, single

app = single()


@app.command()
def version(ctx: typer.Context) -> None:
    """Print the version.

    The one-file executable also says from which commit it was built, and when.

    \b
    Example:
      mqctl version
    """
    facts = ", ".join([*_build(), f"Python {platform.python_version()}"])
    print(f"mqctl {mqctl.__version__} ({facts})", file=session_of(ctx).env.stdout)


def _build() -> list[str]:
    """Of the executable, where dist/mqctl.spec leaves a file beside the package."""
    file = Path(mqctl.__file__).with_name("build.json")
    if not file.exists():
        return []
    import json

    build = json.loads(file.read_text())
    return [*([f"commit {build['commit']}"] if build["commit"] else []), f"built {build['date']}"]
