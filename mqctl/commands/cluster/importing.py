"""`mqctl cluster import`: topics and groups of another cluster, or of this one as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.changing import DryRunOption, YesOption
from mqctl.commands.cluster.shared import app
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.importing import carry_out, read_document
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen_masters, one_of

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.importing import Change


@app.command("import", cls=AdminCommand)
def import_metadata(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `mqctl cluster export metadata` or mqadmin wrote.")
    ],
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="BROKER=NAME", help="Make a broker like the one that has this name in the file."),
    ] = None,
    topics: Annotated[bool, typer.Option("--topics", help="Only topics.")] = False,
    groups: Annotated[bool, typer.Option("--groups", help="Only consumer groups.")] = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create and change topics and groups so that they are as a file says. - reads stdin.

    Each broker becomes like the one with its name in the file, or like the only one there. What is not in the file is
    left alone, and so are messages and offsets. Files of mqadmin that were written for several brokers hold the sum
    of their queues: look at --dry-run first.

    \b
    Examples:
      mqctl cluster import metadata.json --dry-run
      mqctl cluster import metadata.json -n other:9876 -c DefaultCluster --yes
      mqctl cluster import - --context staging --map broker-x=broker-a --yes
    """
    from mqctl.client.admin.metadata import from_document

    one_of(cluster, broker)
    session = session_of(ctx)
    both = topics == groups
    document = read_document(session, file)
    found = from_document(document, str(file)).only(topics=topics or both, groups=groups or both)
    chosen = dict(_pair(text) for text in mapping or ())

    async def work(admin: Admin) -> list[Change]:
        from mqctl.client.admin.importing import plan, sources

        brokers = await chosen_masters(admin, cluster, broker)
        return await plan(admin, found, brokers, sources(found, list(brokers), chosen))

    carry_out(session, session.ask(work), yes=yes, dry_run=dry_run)


def _pair(text: str) -> tuple[str, str]:
    target, separator, source = text.partition("=")
    if not (target and separator and source):
        raise typer.BadParameter(f"{text!r} is not BROKER=NAME", param_hint="--map")
    return target, source
