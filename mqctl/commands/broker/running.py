"""`mqctl broker` without a verb: run a broker."""

from __future__ import annotations

from pathlib import Path
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
    from mqctl.server.broker.config import BrokerConfig

app = noun(cls=ServerGroup, runs=True)


@app.callback()
def broker(
    ctx: typer.Context,
    config_file: ConfigOption = None,
    print_only: PrintOption = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = Level.INFO,
) -> None:
    """Run a broker; show, change and drain running ones.

    Without a verb it runs one. It listens on port 10911 of all addresses and keeps its messages below ~/store unless
    the configuration says otherwise (listenPort, bindAddress, storePathRootDir). Name servers come from -n, else from
    namesrvAddr of the file, else from the variable NAMESRV_ADDR. It runs until Ctrl-C, SIGTERM or
    `mqctl shutdown broker`.

    \b
    Examples:
      mqctl broker -n 127.0.0.1:9876
      mqctl broker -c broker.conf -n 'ns1:9876;ns2:9876' --log-file logs/broker.log
      mqctl broker -c broker.conf -p
    """
    if ctx.invoked_subcommand is not None:
        return
    session = session_of(ctx)
    config = read_config(session, config_file)
    if print_only:
        print_config(session, config)
        return
    _run(session, config, config_file, log_file, log_level)


def read_config(session: Session, file: Path | None) -> BrokerConfig:
    from mqctl.server.broker.config import BrokerConfig

    properties = read_properties(file)
    if session.namesrv is not None:
        properties["namesrvAddr"] = session.namesrv
    elif not properties.get("namesrvAddr"):
        properties["namesrvAddr"] = session.env.variables.get("NAMESRV_ADDR", "")
    return bind_config(session, BrokerConfig, properties, file)


def _run(session: Session, config: BrokerConfig, config_file: Path | None, log_file: Path | None, level: Level) -> None:
    from mqctl.server.broker.app import Broker

    serve(session, lambda: [Broker(config, config_file=config_file)], lambda: describe(config), log_file, level)


def describe(config: BrokerConfig) -> str:
    """What listens where, for the line printed at start-up."""
    listening = f"{config.bind_address}:{config.listen_port}"
    announced = "" if config.address == listening else f", announced as {config.address}"
    servers = f"name servers {config.namesrv_addr}" if config.namesrv_addr else "no name servers"
    return f"broker {config.broker_name} listening on {listening}{announced}, store {config.root.absolute()}, {servers}"
