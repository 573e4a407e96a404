"""`mqctl doctor`: what may be wrong with this machine, a broker's configuration and a cluster, and how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of, single
from mqctl.exit import ExitCode
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.commands.doctor.finding import Finding
    from mqctl.server.broker.config import BrokerConfig

FINDINGS: Final = [Column("verdict"), Column("subject"), Column("found"), Column("fix")]

app = single()


@app.command(cls=AdminCommand)
def doctor(
    ctx: typer.Context,
    config_file: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="Also check this configuration of a broker."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="A store folder; else that of the configuration.")
    ] = None,
) -> None:
    """Look for what is wrong with this machine, a broker's configuration and a cluster, and say how to mend it.

    Looks at limits of the system, the store's disk, ports, clocks, Java and Spark for `mqctl analyze`, the keys in the
    configuration, and whether name servers and brokers can be reached under the addresses that clients are told. Ends
    with 1 if something is wrong; a `note` is no reason for that.

    \b
    Examples:
      mqctl doctor
      mqctl doctor -n 10.0.0.1:9876
      mqctl doctor -c broker.conf -o json
      mqctl doctor --store /data/store
    """
    session = session_of(ctx)
    findings = _look(session, config_file, store)
    session.print_rows(FINDINGS, [finding._asdict() for finding in findings])
    bad = sum(finding.verdict == "wrong" for finding in findings)
    if bad:
        session.env.say(f"{bad} of {len(findings)} are wrong")
        raise typer.Exit(ExitCode.REFUSED)


def _look(session: Session, config_file: Path | None, store: Path | None) -> list[Finding]:
    import msgspec

    from mqctl.commands.doctor import conf
    from mqctl.commands.doctor.cluster import Steady, cluster
    from mqctl.commands.doctor.folder import folder
    from mqctl.commands.doctor.machine import machine
    from mqctl.commands.doctor.ports import broker_ports
    from mqctl.server.broker.config import BrokerConfig

    steady = Steady(session.env.clock)
    config: BrokerConfig | None = BrokerConfig()
    findings: list[Finding] = []
    if config_file is not None:
        config, findings = conf.read(config_file)
    named = _name_servers(session, config if config_file is not None else None)
    if config is not None:
        if store is not None:
            config = msgspec.structs.replace(config, store_path_root_dir=str(store), store_path_commit_log="")
        findings += machine(session.env.variables, config.mapped_file_size_commit_log)
        if store is not None or config_file is not None:
            findings += folder(config, sizes_known=config_file is not None)
        # With nothing but -n, brokers are elsewhere.
        if config_file is not None or not named:
            findings += broker_ports(config)
    findings += session.ask(lambda admin: cluster(admin, session.env.clock, named=named))
    return [*findings, steady.finding()]


def _name_servers(session: Session, config: BrokerConfig | None) -> bool:
    """Whether anything says where they are; the configuration does so where the command line does not."""
    from mqctl.contexts import name_servers

    if session.namesrv is None and session.context is None and config is not None and config.namesrv_addr:
        session.namesrv = config.namesrv_addr
    return session.namesrv is not None or name_servers(session.env.variables, session.context) is not None
