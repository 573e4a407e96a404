"""What the commands that run servers share: options, reading configuration, running until told to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mqctl.commands.common import Session
from mqctl.errors import ConfigError, StoreError

if TYPE_CHECKING:
    import msgspec

    from mqctl.server.run import Server

S = TypeVar("S", bound="msgspec.Struct")


class Level(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


ConfigOption = Annotated[
    Path | None,
    typer.Option("-c", "--config", metavar="FILE", help="A .properties file with RocketMQ's keys."),
]
PrintOption = Annotated[
    bool, typer.Option("-p", "--print", help="Print the configuration in effect, all keys of it, and exit.")
]
LogFileOption = Annotated[
    Path | None,
    typer.Option("--log-file", metavar="FILE", help="Log to this file, ten of 64 MiB kept; else warnings to stderr."),
]
LogLevelOption = Annotated[
    Level, typer.Option("--log-level", case_sensitive=False, help="What goes into the log file.")
]


def read_properties(file: Path | None) -> dict[str, str]:
    """What the file says; nothing when there is none. Raises ConfigError."""
    from mqctl.properties import load_properties

    return {} if file is None else load_properties(file)


def bind_config(session: Session, kind: type[S], properties: Mapping[str, str], file: Path | None) -> S:
    """Raises ConfigError; unknown keys are told to whoever started the server."""
    from mqctl.config import bind

    config, warnings = bind(kind, properties, str(file) if file is not None else "the command line")
    for warning in warnings:
        session.env.say(f"warning: {warning}")
    return config


def print_config(session: Session, config: msgspec.Struct) -> None:
    from mqctl.config import dump

    session.env.stdout.write(dump(config))


def serve(
    session: Session,
    make_servers: Callable[[], Sequence[Server]],
    started: Callable[[], str],
    log_file: Path | None,
    level: Level,
) -> None:
    """Runs the servers until SIGINT or SIGTERM. `started` is the line to print once they serve.

    Raises ConfigError or StoreError when they cannot.
    """
    import logging

    from mqctl import logs
    from mqctl.server import run

    try:
        logs.configure(log_file, level.value)
    except OSError as error:
        raise ConfigError(f"cannot write the log file {log_file}: {error.strerror or error}") from None
    try:
        run.serve(make_servers, lambda: print(started(), file=session.env.stdout, flush=True))
    except OSError as error:
        # Whoever starts a server on a folder that is not his reads one line, not a stack; the log has it.
        logging.getLogger(__name__).debug("the server failed", exc_info=error)
        place = f"{error.filename}: " if error.filename else ""
        raise StoreError(f"{place}{error.strerror or error}") from None
