"""`mqctl cluster export`: what a cluster consists of, as a document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mqctl.commands.cluster.shared import app
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen, chosen_masters, one_of
from mqctl.commands.telling import report_missing
from mqctl.errors import ConfigError
from mqctl.output import Output

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.errors import MqError

    Exported = tuple[dict[str, Any], dict[str, MqError]]

export = noun("Write down what a cluster consists of: JSON, or with -o yaml YAML.")
app.add_typer(export, name="export")

FolderOption = Annotated[
    Path | None,
    typer.Option("-f", "--folder", metavar="DIR", help="Into a file in this folder, instead of to stdout."),
]


@export.command(cls=AdminCommand)
def metadata(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    topics: Annotated[bool, typer.Option("--topics", help="Only topics.")] = False,
    groups: Annotated[bool, typer.Option("--groups", help="Only consumer groups.")] = False,
    special: Annotated[bool, typer.Option("--special", help="Retry and dead letter topics as well.")] = False,
    folder: FolderOption = None,
) -> None:
    """Topics and consumer groups with their settings, for `mqctl cluster import`.

    What brokers make for themselves is left out. At the top stand the tables that mqadmin writes, where the queues of
    several brokers are added up, and under "brokers" what each of them has.

    \b
    Examples:
      mqctl cluster export metadata > metadata.json
      mqctl cluster export metadata -c DefaultCluster --topics -f backup
    """
    one_of(cluster, broker)
    session = session_of(ctx)
    both = topics == groups
    name = "metadata" if both else "topic" if topics else "subscriptionGroup"

    async def work(admin: Admin) -> Exported:
        from mqctl.client.admin.metadata import read_metadata, to_document

        found, answers = await read_metadata(admin, await chosen_masters(admin, cluster, broker), special=special)
        wanted = found.only(topics=topics or both, groups=groups or both)
        return to_document(wanted, cluster, int(session.env.clock() * 1000)), answers.failed

    _export(session, name, session.ask(work), folder)


@export.command(cls=AdminCommand)
def configs(ctx: typer.Context, cluster: ClusterOption = None, folder: FolderOption = None) -> None:
    """The settings of all masters, and how many servers there are.

    \b
    Examples:
      mqctl cluster export configs
      mqctl cluster export configs -c DefaultCluster -f backup
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> Exported:
        from mqctl.client.admin.exporting import configs

        return await configs(admin, await chosen(admin, cluster, None))

    _export(session, "configs", session.ask(work), folder)


@export.command(cls=AdminCommand)
def metrics(ctx: typer.Context, cluster: ClusterOption = None, folder: FolderOption = None) -> None:
    """How busy all masters are: rates, messages of a day, disks, numbers of topics and groups, clients' versions.

    \b
    Example:
      mqctl cluster export metrics -c DefaultCluster
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> Exported:
        from mqctl.client.admin.exporting import metrics

        return await metrics(admin, await chosen(admin, cluster, None), int(session.env.clock() * 1000))

    _export(session, "metrics", session.ask(work), folder)


def _export(session: Session, name: str, exported: Exported, folder: Path | None) -> None:
    """What lacks a broker is written all the same, and told."""
    from mqctl.output import Format
    from mqctl.userfiles import replace

    document, failed = exported
    text = Output(session.env, session.output).document_text(document)
    if folder is None:
        session.env.stdout.write(text)
    else:
        path = folder / f"{name}.{'yaml' if session.output is Format.YAML else 'json'}"
        try:
            replace(path, text.encode())
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
        session.env.say(f"written to {path}")
    report_missing(session, failed)
