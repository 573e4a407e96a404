"""`mqctl topic`: create, change and describe topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.completing import complete_topics
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.topics import Outcome, Wish
    from mqctl.remoting.bodies import TopicConfig

app = noun("Create, change and describe topics.")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]
ClusterOption = Annotated[str | None, typer.Option("-c", "--cluster", metavar="CLUSTER")]


# -- update ---------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def update(
    ctx: typer.Context,
    topic: TopicArgument,
    write_queues: Annotated[int | None, typer.Option("-w", "--write-queues", min=0, metavar="N")] = None,
    read_queues: Annotated[int | None, typer.Option("-r", "--read-queues", min=0, metavar="N")] = None,
    perm: Annotated[str | None, typer.Option("--perm", metavar="PERM", help="rw, r or w; or 6, 4, 2.")] = None,
    order: Annotated[bool | None, typer.Option("--order/--no-order", help="Whether messages are ordered.")] = None,
    cluster: ClusterOption = None,
    broker: Annotated[
        str | None, typer.Option("-b", "--broker", metavar="ADDR", help="Only this broker, as host:port.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Create a topic, or change one.

    On all masters of the cluster; -c chooses one where there are several. What is not given stays as it is; a new
    topic gets 8 write queues, 8 read queues and perm rw.

    \b
    Examples:
      mqctl topic update orders
      mqctl topic update orders -w 16 -r 16
      mqctl topic update orders --perm r -b 127.0.0.1:10911
    """
    from mqctl.client.topics import Wish

    if cluster is not None and broker is not None:
        raise typer.BadParameter("give -c or -b, not both")
    wish = Wish(read_queues, write_queues, _perm(perm), order)
    session = session_of(ctx)
    outcomes = session.ask(lambda admin: _update(admin, topic, wish, cluster, broker, dry_run))
    _report(session, outcomes)


def _perm(text: str | None) -> int | None:
    from mqctl.client.topics import parse_perm

    try:
        return None if text is None else parse_perm(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--perm") from None


async def _update(
    admin: Admin, topic: str, wish: Wish, cluster: str | None, broker: str | None, dry_run: bool
) -> list[Outcome]:
    import asyncio

    from mqctl.client.topics import set_order, update_topic

    targets = await _targets(admin, cluster, broker)
    if wish.order is not None and not dry_run:
        plans = await asyncio.gather(*(update_topic(admin, topic, wish, *target, dry_run=True) for target in targets))
        counts = {plan.broker_name: plan.after.write_queue_nums for plan in plans if plan.after is not None}
        await set_order(admin, topic, counts if wish.order else None)
    return await asyncio.gather(*(update_topic(admin, topic, wish, *target, dry_run=dry_run) for target in targets))


async def _targets(admin: Admin, cluster: str | None, broker: str | None) -> list[tuple[str, str]]:
    """Broker names and addresses; a broker named by its address need not be registered."""
    from mqctl.client.clusters import masters

    info = await admin.cluster_info()
    if broker is None:
        return list(masters(info, cluster).items())
    names = [name for name, data in info.broker_addr_table.items() if broker in data.broker_addrs.values()]
    return [(names[0] if names else broker, broker)]


def _config_text(config: dict[str, Any]) -> str:
    order = " ordered" if config["order"] else ""
    return f"w{config['writeQueueNums']} r{config['readQueueNums']} {config['perm']}{order}"


CHANGED: Final = [
    Column("brokerName", "BROKER"),
    Column("brokerAddr", "ADDRESS"),
    Column("before", show=_config_text),
    Column("after", show=_config_text),
]


def _report(session: Session, outcomes: list[Outcome]) -> None:
    """What every broker did; the exit status says whether all, some or none of them did it."""
    from mqctl.exit import ExitCode

    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    columns = [*CHANGED, Column("error")] if failed else CHANGED
    session.print_rows(columns, [_outcome_row(outcome) for outcome in outcomes])
    for outcome in outcomes:
        _warn(session, outcome)
    if len(failed) == len(outcomes):
        raise failed[0]
    if failed:
        raise typer.Exit(ExitCode.PARTIAL)


def _outcome_row(outcome: Outcome) -> dict[str, Any]:
    return {
        "brokerName": outcome.broker_name,
        "brokerAddr": outcome.address,
        "before": _config_row(outcome.before),
        "after": _config_row(outcome.after),
        "error": outcome.error.message if outcome.error is not None else None,
    }


def _config_row(config: TopicConfig | None) -> dict[str, Any] | None:
    from mqctl.client.topics import perm_text

    if config is None:
        return None
    return {
        "writeQueueNums": config.write_queue_nums,
        "readQueueNums": config.read_queue_nums,
        "perm": perm_text(config.perm),
        "order": config.order,
    }


def _warn(session: Session, outcome: Outcome) -> None:
    after = outcome.after
    if after is not None and after.read_queue_nums < after.write_queue_nums:
        session.env.say(
            f"warning: {outcome.broker_name}: messages go to queues {after.read_queue_nums} to "
            f"{after.write_queue_nums - 1}, which no consumer reads"
        )


# -- list, route, stats ---------------------------------------------------------------------------------


@app.command("list", cls=AdminCommand)
def list_topics(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    system: Annotated[
        bool, typer.Option("--system/--no-system", help="With the servers' own topics, retry and dead letter topics.")
    ] = True,
) -> None:
    """List topics.

    \b
    Examples:
      mqctl topic list
      mqctl topic list --no-system -o json
    """

    async def find(admin: Admin) -> list[str]:
        topics = await admin.topic_list(cluster)
        if cluster is not None and not topics:
            await _check_cluster(admin, cluster)
        if system:
            return topics
        from mqctl.client.topics import user_topics

        return await user_topics(admin, topics)

    session = session_of(ctx)
    topics = session.ask(find)
    session.print_rows([Column("topic")], [{"topic": topic} for topic in topics])


async def _check_cluster(admin: Admin, cluster: str) -> None:
    """A name server answers for a cluster that does not exist as for one without topics."""
    from mqctl.client.clusters import masters

    masters(await admin.cluster_info(), cluster)


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
    from mqctl.client.topics import perm_text

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


STATS: Final = [
    Column("brokerName", "BROKER"),
    Column("queueId", "QUEUE"),
    Column("minOffset", "MIN"),
    Column("maxOffset", "MAX"),
    Column("lastUpdateTimestamp", "LAST MESSAGE", time_text),
]


@app.command(cls=AdminCommand)
def stats(ctx: typer.Context, topic: TopicArgument) -> None:
    """Show how far each queue of a topic reaches.

    \b
    Example:
      mqctl topic stats orders
    """
    session = session_of(ctx)
    rows = session.ask(lambda admin: _stats(admin, topic))
    session.print_rows(STATS, rows)


async def _stats(admin: Admin, topic: str) -> list[dict[str, Any]]:
    import asyncio

    from mqctl.client.clusters import readable_address

    route = await admin.topic_route(topic)
    addresses = [readable_address(broker.broker_addrs) for broker in route.broker_datas]
    tables = await asyncio.gather(*(admin.topic_stats(address, topic) for address in addresses if address is not None))
    merged = {queue: queue_stats for table in tables for queue, queue_stats in table.offset_table.items()}
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
