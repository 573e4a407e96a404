"""`mqctl consumer apply`: many groups at once, as a file describes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mqctl.commands.changing import DryRunOption, YesOption
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.consumer.shared import app
from mqctl.commands.importing import carry_out, read_document
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen_masters, one_of
from mqctl.errors import ConfigError

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.importing import Change


@app.command(cls=AdminCommand)
def apply(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", metavar="FILE", help="JSON or YAML; - for stdin.")],
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create and change consumer groups so that they are as a file says.

    The file holds a list of objects with RocketMQ's names: groupName, and those settings that matter; the others stay
    as they are. Groups that are not in the file are left alone.

    \b
    Examples:
      mqctl consumer apply -f groups.yaml --dry-run
      mqctl consumer apply -f groups.json -c DefaultCluster --yes
    """
    one_of(cluster, broker)
    session = session_of(ctx)
    groups = _groups(read_document(session, file), str(file))

    async def work(admin: Admin) -> list[Change]:
        from mqctl.client.admin.importing import plan
        from mqctl.client.admin.metadata import Metadata, Tables

        brokers = await chosen_masters(admin, cluster, broker)
        return await plan(admin, Metadata({"": Tables(groups=groups)}, {}), brokers, dict.fromkeys(brokers, ""))

    carry_out(session, session.ask(work), yes=yes, dry_run=dry_run)


def _groups(document: Any, source: str) -> dict[str, dict[str, Any]]:
    if not isinstance(document, list):
        raise ConfigError(f"{source} does not hold a list of groups")
    for entry in document:
        if not isinstance(entry, dict) or not isinstance(entry.get("groupName"), str):
            raise ConfigError(f"not a group: {entry!r}", hint="each needs at least a groupName")
    return {entry["groupName"]: entry for entry in document}
