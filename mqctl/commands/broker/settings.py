"""`mqctl broker config get` and `set`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.changing import DryRunOption, YesOption
from mqctl.commands.common import AdminCommand, noun, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen, chosen_masters, one_of
from mqctl.commands.settings import KeysArgument, PairsArgument, ask_before, finish, parse_pairs, show_settings

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.brokers import SettingChange
    from mqctl.client.admin.everywhere import Answers

config = noun("Show and change the settings of running brokers.")
app.add_typer(config, name="config")


@config.command(cls=AdminCommand)
def get(
    ctx: typer.Context, keys: KeysArgument = None, broker: BrokerOption = None, cluster: ClusterOption = None
) -> None:
    """Show settings of brokers: all of them, or some.

    \b
    Examples:
      mqctl broker config get -b broker-a
      mqctl broker config get fileReservedTime flushDiskType -c DefaultCluster
    """
    one_of(cluster, broker)
    session = session_of(ctx)
    show_settings(session, session.ask(lambda admin: _configs(admin, cluster, broker)), keys)


async def _configs(admin: Admin, cluster: str | None, broker: str | None) -> Answers[dict[str, str]]:
    from mqctl.client.admin.brokers import broker_config
    from mqctl.client.admin.everywhere import ask_all

    found = await chosen(admin, cluster, broker)
    return await ask_all(
        {instance.address: instance.address for instance in found}, lambda address: broker_config(admin, address)
    )


@config.command("set", cls=AdminCommand)
def set_config(
    ctx: typer.Context,
    pairs: PairsArgument,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    slaves: Annotated[bool, typer.Option("--slaves", help="Of their slaves as well.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Change settings of running brokers; they keep them in their files.

    On all masters of the cluster; -c chooses one where there are several, -b a broker.

    \b
    Examples:
      mqctl broker config set fileReservedTime=48 --dry-run
      mqctl broker config set fileReservedTime=48 -b broker-a --yes
    """
    one_of(cluster, broker)
    wanted = parse_pairs(pairs)
    session = session_of(ctx)
    brokers = session.ask(lambda admin: _brokers(admin, cluster, broker, slaves))
    if not dry_run:
        ask_before(session, wanted, brokers, yes)

    async def change(admin: Admin) -> list[SettingChange]:
        from mqctl.client.admin.brokers import change_settings

        return await change_settings(admin, brokers, wanted, name_servers=False, dry_run=dry_run)

    finish(session, None if dry_run else "brokerConfig", session.ask(change))


async def _brokers(admin: Admin, cluster: str | None, broker: str | None, slaves: bool) -> dict[str, str]:
    """Addresses: of masters by name, of slaves by themselves."""
    if not slaves:
        return await chosen_masters(admin, cluster, broker)
    found = await chosen(admin, cluster, broker)
    if broker is None:
        of_one_cluster = await chosen_masters(admin, cluster, None)
        found = [one for one in found if one.broker_name in of_one_cluster]
    return {one.broker_name if one.is_master else one.address: one.address for one in found}
