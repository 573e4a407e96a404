"""`mqctl namesrv` without a verb: run a name server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mqctl.commands.common import ServerGroup, Session, noun, session_of
from mqctl.commands.serving import (
    ConfigOption,
    Level,
    LogFileOption,
    LogLevelOption,
    PrintOption,
    bind_config,
    print_config,
    read_properties,
    serve,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mqctl.server.namesrv.config import NamesrvConfig

app = noun(cls=ServerGroup, runs=True)


@app.callback()
def namesrv(
    ctx: typer.Context,
    config_file: ConfigOption = None,
    print_only: PrintOption = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = Level.INFO,
) -> None:
    """Run a name server; show and change settings of running ones.

    Without a verb it runs one. It listens on port 9876 of all addresses unless the configuration says otherwise
    (listenPort, bindAddress), and runs until Ctrl-C, SIGTERM or `mqctl shutdown namesrv`.

    \b
    Examples:
      mqctl namesrv
      mqctl namesrv -c namesrv.properties --log-file logs/namesrv.log
      mqctl namesrv -c namesrv.properties -p
    """
    if ctx.invoked_subcommand is not None:
        return
    session = session_of(ctx)
    config = read_config(session, config_file)
    if print_only:
        print_config(session, config)
        return
    _run(session, config, log_file, log_level)


def read_config(session: Session, file: Path | None) -> NamesrvConfig:
    from mqctl.server.namesrv.config import NamesrvConfig

    properties = read_properties(file)
    if file is not None:
        # Where changes over the wire are kept: in the file it was started with, as RocketMQ does.
        properties["configStorePath"] = str(file.absolute())
    return bind_config(session, NamesrvConfig, properties, file)


def _run(session: Session, config: NamesrvConfig, log_file: Path | None, level: Level) -> None:
    from mqctl.server.namesrv.server import NameServer

    running: list[NameServer] = []

    def make() -> list[NameServer]:
        running.append(NameServer(config))
        return running

    def started() -> str:
        return f"name server listening on {config.bind_address}:{running[0].port}, kv config {config.kv_config_path}"

    serve(session, make, started, log_file, level)
