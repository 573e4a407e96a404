"""`mqctl completion`: the script that makes a shell complete mqctl's commands."""

from __future__ import annotations

from typing import Annotated

import typer

from mqctl.commands.common import session_of, single
from mqctl.completion import SCRIPTS, Shell

app = single()


@app.command()
def completion(ctx: typer.Context, shell: Annotated[Shell, typer.Argument(help="Which shell to write for.")]) -> None:
    """Print a shell's completion script.

    It completes commands, options, contexts, and the names of topics, groups, brokers and clusters. Those are asked
    from the cluster, for a second at most, and kept for ten in a file below ~/.cache/mqctl.

    \b
    Examples:
      source <(mqctl completion bash)
      mqctl completion zsh > "${fpath[1]}/_mqctl"
      mqctl completion fish > ~/.config/fish/completions/mqctl.fish
    """
    session_of(ctx).env.stdout.write(SCRIPTS[shell])
