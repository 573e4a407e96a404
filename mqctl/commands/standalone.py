"""`mqctl standalone`: a name server and a broker in one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.common import DEFAULT_NAMESRV, Session, session_of, single
from mqctl.commands.serving import (
    ConfigOption,
    Level,
    LogFileOption,
    LogLevelOption,
    PrintOption,
    print_config,
    read_properties,
    serve,
)
from mqctl.errors import ConfigError

if TYPE_CHECKING:
    from mqctl.server.standalone import Standalone

DEFAULT_STORE: Final = Path("mqctl-data")

NEXT_STEPS: Final = """
In a second terminal:
  mqctl {namesrv}topic update orders
  mqctl {namesrv}msg tail orders
and in a third:
  mqctl {namesrv}msg send orders 'hello'
Ctrl-C stops both servers; the messages stay in the store.
To see producers and consumers at work: mqctl quickstart"""

app = single()


@app.command()
def standalone(
    ctx: typer.Context,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="DIR", help=f"Where messages are kept; ./{DEFAULT_STORE} if not given."),
    ] = None,
    namesrv_port: Annotated[int, typer.Option("--namesrv-port", min=1, max=65535, metavar="PORT")] = 9876,
    broker_port: Annotated[
        int | None, typer.Option("--broker-port", min=3, max=65535, metavar="PORT", help="10911 if not given.")
    ] = None,
    config_file: ConfigOption = None,
    print_only: PrintOption = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = Level.INFO,
) -> None:
    """Run a name server and a broker in one process, to try things out.

    They listen on 127.0.0.1 only, unless a broker configuration given with -c says otherwise (bindAddress).

    \b
    Examples:
      mqctl standalone
      mqctl standalone --store /tmp/mq --namesrv-port 19876 --broker-port 20911
    """
    session = session_of(ctx)
    both = _read_config(session, config_file, store, namesrv_port, broker_port)
    if print_only:
        session.env.stdout.write("# name server\n")
        print_config(session, both.namesrv)
        session.env.stdout.write("# broker\n")
        print_config(session, both.broker)
        return
    try:
        serve(session, both.servers, lambda: _started(session, both), log_file, log_level)
    except ConfigError as error:
        if error.hint:
            error.hint += " (here: --namesrv-port, --broker-port)"
        raise


def _read_config(
    session: Session, file: Path | None, store: Path | None, namesrv_port: int, broker_port: int | None
) -> Standalone:
    from mqctl.server.standalone import configure

    properties = read_properties(file)
    if store is None and "storePathRootDir" not in properties:
        store = DEFAULT_STORE
    both, warnings = configure(
        properties,
        file,
        store=None if store is None else store.absolute(),
        namesrv_port=namesrv_port,
        broker_port=broker_port,
    )
    for warning in warnings:
        session.env.say(f"warning: {warning}")
    return both


def _started(session: Session, both: Standalone) -> str:
    broker, namesrv = both.broker, both.namesrv
    line = (
        f"standalone: name server listening on {namesrv.bind_address}:{namesrv.listen_port}, "
        f"broker {broker.broker_name} on {broker.bind_address}:{broker.listen_port}, store {broker.root.absolute()}"
    )
    if not session.env.on_terminal:
        return line
    address = broker.namesrv_addr
    return line + "\n" + NEXT_STEPS.format(namesrv="" if address == DEFAULT_NAMESRV else f"-n {address} ")
