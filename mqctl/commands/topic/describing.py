"""`mqctl topic route`, `stats` and `allocate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.completing import complete_topics
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import Counting, report_missing
from mqctl.commands.topic.shared import TopicArgument, app
from mqctl.commands.watching import WatchOption, watch
from mqctl.figures import count_text, rate_text
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers
    from mqctl.client.admin.topicstats import Traffic
    from mqctl.errors import MqError
    from mqctl.remoting.bodies import TopicStatsTable

ROUTE: Final = [
    Column("cluster"),
    Column("brokerName", "BROKER"),
    Column("brokerAddrs", "ADDRESSES"),
    Column("readQueueNums", "READ"),
    Column("writeQueueNums", "WRITE"),
    Column("perm"),
]


@app.command(cls=AdminCommand)
def route(ctx: typer.Context, topic: TopicArgument) -> None:
    """Show which brokers have a topic, and how many queues of it.

    \b
    Example:
      mqctl topic route orders
    """
    from mqctl.client.admin.topics import perm_text

    session = session_of(ctx)
    found = session.ask(lambda admin: admin.topic_route(topic))
    brokers = {data.broker_name: data for data in found.broker_datas}
    rows = [
        {
            "cluster": broker.cluster,
            "brokerName": broker.broker_name,
            "brokerAddrs": {str(broker_id): address for broker_id, address in sorted(broker.broker_addrs.items())},
            "readQueueNums": queues.read_queue_nums,
            "writeQueueNums": queues.write_queue_nums,
            "perm": perm_text(queues.perm),
        }
        for queues in sorted(found.queue_datas, key=lambda data: data.broker_name)
        if (broker := brokers.get(queues.broker_name)) is not None
    ]
    session.print_rows(ROUTE, rows)


# -- stats ----------------------------------------------------------------------------------------------

STATS: Final = [
    Column("brokerName", "BROKER"),
    Column("queueId", "QUEUE"),
    Column("minOffset", "MIN"),
    Column("maxOffset", "MAX"),
    Column("lastUpdateTimestamp", "LAST MESSAGE", time_text),
]
TRAFFIC: Final = [
    Column("topic"),
    Column("group"),
    Column("diff", "BEHIND", count_text),
    Column("inTps", "IN/S", rate_text),
    Column("outTps", "OUT/S", rate_text),
    Column("inDay", "IN 24 H", count_text),
    Column("outDay", "OUT 24 H", count_text),
]


@app.command(cls=AdminCommand)
def stats(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", autocompletion=complete_topics)] = None,
    traffic: Annotated[
        bool, typer.Option("--all", help="How much goes in and out instead, of all topics or of this one.")
    ] = False,
    active: Annotated[bool, typer.Option("--active", help="With --all: only where anything moved today.")] = False,
    cluster: ClusterOption = None,
    every: WatchOption = None,
) -> None:
    """Show how far each queue of a topic reaches; or with --all how much goes in and out of topics, by group.

    \b
    Examples:
      mqctl topic stats orders
      mqctl topic stats --all --active --watch 10
    """
    session = session_of(ctx)

    def show_queues(answers: Answers[TopicStatsTable]) -> None:
        session.print_rows(STATS, _queue_rows(answers))
        report_missing(session, answers.failed)

    def show_traffic(seen: tuple[list[Traffic], dict[str, MqError]]) -> None:
        found, failed = seen
        session.print_rows(TRAFFIC, [_traffic_row(one) for one in found if one.active or not active])
        report_missing(session, failed)

    if traffic:
        watch(session, every, lambda admin: _traffic(session, admin, topic, cluster), show_traffic)
    elif topic is None:
        raise typer.BadParameter("give a topic, or --all", param_hint="TOPIC")
    else:
        watch(session, every, lambda admin: _tables(admin, topic), show_queues)


async def _tables(admin: Admin, topic: str) -> Answers[TopicStatsTable]:
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.clusters import readable_address

    route = await admin.topic_route(topic)
    found = {broker.broker_name: readable_address(broker.broker_addrs) for broker in route.broker_datas}
    brokers = {name: address for name, address in found.items() if address is not None}
    return await ask_all(brokers, lambda address: admin.topic_stats(address, topic))


def _queue_rows(answers: Answers[TopicStatsTable]) -> list[dict[str, Any]]:
    merged = {queue: at for table in answers.given.values() for queue, at in table.offset_table.items()}
    return [
        {
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "minOffset": merged[queue].min_offset,
            "maxOffset": merged[queue].max_offset,
            "lastUpdateTimestamp": merged[queue].last_update_timestamp,
        }
        for queue in sorted(merged)
    ]


async def _traffic(
    session: Session, admin: Admin, topic: str | None, cluster: str | None
) -> tuple[list[Traffic], dict[str, MqError]]:
    from mqctl.client.admin.everywhere import ask_each
    from mqctl.client.admin.topics import user_topics
    from mqctl.client.admin.topicstats import topic_places, traffic_of

    if topic is not None:
        await admin.topic_route(topic)
    places = await topic_places(admin, cluster)
    topics = [topic] if topic is not None else await user_topics(admin, await admin.topic_list(cluster))
    with Counting(session, "asked about", len(topics)) as told:
        found = await ask_each(topics, lambda one: traffic_of(admin, one, places.of(one)), told)
    return [one for several in found for one in several], places.failed


def _traffic_row(one: Traffic) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "group": one.group,
        "diff": one.behind,
        "inTps": round(one.in_tps, 2),
        "outTps": round(one.out_tps, 2),
        "inDay": one.in_day,
        "outDay": one.out_day,
    }


# -- allocate -------------------------------------------------------------------------------------------

ALLOCATED: Final = [Column("client"), Column("queues", show=lambda queues: ", ".join(queues) or "-")]


@app.command(cls=AdminCommand)
def allocate(
    ctx: typer.Context,
    topic: TopicArgument,
    clients: Annotated[str, typer.Option("--clients", metavar="ID,ID...", help="Client ids or addresses.")],
) -> None:
    """Show which queues of a topic consumers would get, were these the members of a group.

    By RocketMQ's usual strategy, which gives each a run of neighbours.

    \b
    Example:
      mqctl topic allocate orders --clients 10.0.0.1,10.0.0.2,10.0.0.3
    """
    from mqctl.client.membership import readable_queues
    from mqctl.client.rebalance import averagely

    session = session_of(ctx)
    members = sorted({client.strip() for client in clients.split(",") if client.strip()})
    if not members:
        raise typer.BadParameter("give at least one", param_hint="--clients")
    queues = sorted(readable_queues(session.ask(lambda admin: admin.topic_route(topic)), topic))
    rows = [
        {
            "client": member,
            "queues": [f"{queue.broker_name}:{queue.queue_id}" for queue in averagely(member, queues, members)],
        }
        for member in members
    ]
    session.print_rows(ALLOCATED, rows)
