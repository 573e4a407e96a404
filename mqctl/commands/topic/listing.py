"""`mqctl topic list`, `clusters` and `unit`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import Counting, report_missing
from mqctl.commands.topic.shared import TopicArgument, app
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.errors import MqError

GROUPS: Final = [Column("cluster"), Column("topic"), Column("groups")]


@app.command("list", cls=AdminCommand)
def list_topics(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    groups: Annotated[bool, typer.Option("--groups", help="With the groups that consume each.")] = False,
    system: Annotated[
        bool, typer.Option("--system/--no-system", help="With the servers' own topics, retry and dead letter topics.")
    ] = True,
) -> None:
    """List topics.

    \b
    Examples:
      mqctl topic list
      mqctl topic list --no-system -o json
      mqctl topic list --groups
    """

    async def find(admin: Admin) -> list[str]:
        topics = await admin.topic_list(cluster)
        if cluster is not None and not topics:
            await _check_cluster(admin, cluster)
        if system:
            return topics
        from mqctl.client.admin.topics import user_topics

        return await user_topics(admin, topics)

    session = session_of(ctx)
    if groups:
        _list_groups(session, find, cluster)
        return
    session.print_rows([Column("topic")], [{"topic": topic} for topic in session.ask(find)])


async def _check_cluster(admin: Admin, cluster: str) -> None:
    """A name server answers for a cluster that does not exist as for one without topics."""
    from mqctl.client.clusters import masters

    masters(await admin.cluster_info(), cluster)


def _list_groups(session: Session, find: Any, cluster: str | None) -> None:
    async def look(admin: Admin) -> tuple[list[dict[str, Any]], dict[str, MqError]]:
        from mqctl.client.admin.topicstats import consumers_of, topic_places

        places = await topic_places(admin, cluster)
        wanted = await find(admin)
        with Counting(session, "asked about", len(wanted)) as told:
            groups = await consumers_of(admin, {topic: places.of(topic) for topic in wanted}, told)
        rows = [
            {"cluster": of, "topic": topic, "groups": sorted(groups[topic])}
            for topic in wanted
            for of in places.clusters(topic)
        ]
        return rows, places.failed

    rows, failed = session.ask(look)
    session.print_rows(GROUPS, sorted(rows, key=lambda row: (row["cluster"], row["topic"])))
    report_missing(session, failed)


@app.command(cls=AdminCommand)
def clusters(ctx: typer.Context, topic: TopicArgument) -> None:
    """List the clusters that have a topic.

    \b
    Example:
      mqctl topic clusters orders
    """

    async def find(admin: Admin) -> list[str]:
        return sorted({broker.cluster for broker in (await admin.topic_route(topic)).broker_datas})

    session = session_of(ctx)
    session.print_rows([Column("cluster")], [{"cluster": cluster} for cluster in session.ask(find)])


class Kind(StrEnum):
    UNIT = "unit"
    SUBSCRIBED = "subscribed"
    ONLY_SUBSCRIBED = "only-subscribed"


@app.command(cls=AdminCommand)
def unit(
    ctx: typer.Context,
    kind: Annotated[
        Kind, typer.Argument(help="Of a unit, subscribed to by units, or subscribed to by them and of none.")
    ] = Kind.UNIT,
) -> None:
    """List the topics of deployments over several units.

    \b
    Examples:
      mqctl topic unit
      mqctl topic unit subscribed
    """

    async def find(admin: Admin) -> list[str]:
        from mqctl.remoting.bodies import TopicList
        from mqctl.remoting.codes import RequestCode
        from mqctl.remoting.command import Command

        codes = {
            Kind.UNIT: RequestCode.GET_UNIT_TOPIC_LIST,
            Kind.SUBSCRIBED: RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            Kind.ONLY_SUBSCRIBED: RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        }
        return sorted(admin.decode(TopicList, await admin.ask(Command(codes[kind]))).topic_list)

    session = session_of(ctx)
    session.print_rows([Column("topic")], [{"topic": topic} for topic in session.ask(find)])
