"""`mqctl namesrv config get` and `set`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mqctl.commands.changing import DryRunOption, YesOption
from mqctl.commands.common import AdminCommand, noun, session_of
from mqctl.commands.namesrv.running import app
from mqctl.commands.settings import KeysArgument, PairsArgument, ask_before, finish, parse_pairs, show_settings

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.brokers import SettingChange
    from mqctl.client.admin.everywhere import Answers

config = noun("Show and change the settings of running name servers.")
app.add_typer(config, name="config")


@config.command(cls=AdminCommand)
def get(ctx: typer.Context, keys: KeysArgument = None) -> None:
    """Show settings of all name servers.

    \b
    Examples:
      mqctl namesrv config get
      mqctl namesrv config get orderMessageEnable -n 'ns1:9876;ns2:9876'
    """
    session = session_of(ctx)
    show_settings(session, session.ask(_configs), keys)


async def _configs(admin: Admin) -> Answers[dict[str, str]]:
    from mqctl.client.admin.brokers import namesrv_config
    from mqctl.client.admin.everywhere import ask_all

    servers = {address: address for address in admin.name_server_addresses}
    return await ask_all(servers, lambda address: namesrv_config(admin, address))


@config.command("set", cls=AdminCommand)
def set_config(ctx: typer.Context, pairs: PairsArgument, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """Change settings of all name servers that -n names.

    \b
    Examples:
      mqctl namesrv config set orderMessageEnable=true --dry-run
      mqctl namesrv config set orderMessageEnable=true --yes
    """
    wanted = parse_pairs(pairs)
    session = session_of(ctx)

    async def change(admin: Admin) -> list[SettingChange]:
        from mqctl.client.admin.brokers import change_settings

        servers = {address: address for address in admin.name_server_addresses}
        if not dry_run:
            ask_before(session, wanted, servers, yes)
        return await change_settings(admin, servers, wanted, name_servers=True, dry_run=dry_run)

    finish(session, None if dry_run else "namesrvConfig", session.ask(change))
