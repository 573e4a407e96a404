"""`mqctl acl whitelist` and `mqctl acl version`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.acl.shared import addresses_of, app, everywhere
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, noun, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption
from mqctl.commands.telling import report_missing
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin

whitelist = noun("Show and set the addresses from which no account is needed.")
app.add_typer(whitelist, name="whitelist")

ADDRESSES: Final = [Column("brokerAddr", "BROKER"), Column("addresses")]
CHANGED: Final = [Column("brokerAddr", "BROKER"), Column("before"), Column("after")]
VERSIONS: Final = [
    Column("cluster"),
    Column("brokerName", "BROKER"),
    Column("brokerAddr", "ADDRESS"),
    Column("file"),
    Column("counter", "VERSION"),
    Column("timestamp", "CHANGED", time_text),
]


@whitelist.command("list", cls=AdminCommand)
def list_addresses(ctx: typer.Context, cluster: ClusterOption = None, broker: BrokerOption = None) -> None:
    """List the addresses from which no account is needed.

    \b
    Example:
      mqctl acl whitelist list -o json
    """
    from mqctl.client.admin.acl import acl_config

    session = session_of(ctx)
    answers = everywhere(session, cluster, broker, acl_config)
    rows = [{"brokerAddr": address, "addresses": one.global_white_addrs} for address, one in answers.given.items()]
    session.print_rows(ADDRESSES, rows)
    report_missing(session, answers.failed)


@whitelist.command("set", cls=AdminCommand)
def set_addresses(
    ctx: typer.Context,
    addresses: Annotated[str, typer.Argument(metavar="ADDRESSES", help="Separated by commas: 10.0.0.1,10.1.0.*")],
    file: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="Which of the broker's files; else plain_acl.yml.")
    ] = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Set the addresses from which no account is needed, on all brokers, in place of those of the same file.

    \b
    Examples:
      mqctl acl whitelist set '10.10.103.*,192.168.0.1' --dry-run
      mqctl acl whitelist set 127.0.0.1 -b broker-a --yes
    """
    session = session_of(ctx)
    wanted = [part.strip() for part in addresses.split(",") if part.strip()]
    if not dry_run:
        where = ", ".join(addresses_of(session, cluster, broker))
        confirm(session, f"Let in everybody from {', '.join(wanted) or 'nowhere'} on {where}. Go on?", yes)

    async def work(admin: Admin, address: str) -> tuple[list[str], list[str]]:
        from mqctl.client.admin.acl import acl_config, set_white_addresses

        before = (await acl_config(admin, address)).global_white_addrs
        if dry_run:
            return before, wanted
        await set_white_addresses(admin, address, wanted, file)
        return before, (await acl_config(admin, address)).global_white_addrs

    answers = everywhere(session, cluster, broker, work)
    rows = [
        {"brokerAddr": address, "before": before, "after": after} for address, (before, after) in answers.given.items()
    ]
    session.print_rows(CHANGED, rows)
    report_missing(session, answers.failed)


@app.command(cls=AdminCommand)
def version(ctx: typer.Context, cluster: ClusterOption = None, broker: BrokerOption = None) -> None:
    """Show which state the brokers' files are in, to see whether they agree.

    \b
    Example:
      mqctl acl version -c DefaultCluster
    """
    from mqctl.client.admin.acl import acl_version

    session = session_of(ctx)
    answers = everywhere(session, cluster, broker, acl_version)
    rows = [
        {
            "cluster": one.cluster,
            "brokerName": one.broker_name,
            "brokerAddr": address,
            "file": file,
            "counter": state.counter,
            "timestamp": state.timestamp,
        }
        for address, one in answers.given.items()
        for file, state in one.files.items()
    ]
    session.print_rows(VERSIONS, rows)
    report_missing(session, answers.failed)
