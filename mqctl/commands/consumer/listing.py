"""`mqctl consumer list` and `progress`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.completing import complete_groups, complete_topics
from mqctl.commands.consumer.shared import app, find_groups, type_text
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import Counting, report_missing
from mqctl.commands.watching import WatchOption, watch
from mqctl.figures import count_text, rate_text
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.consumers import KnownGroups
    from mqctl.client.admin.progress import GroupProgress, QueueProgress
    from mqctl.errors import MqError

SystemOption = Annotated[bool, typer.Option("--system/--no-system", help="With the groups of the servers themselves.")]


@app.command("list", cls=AdminCommand)
def list_groups(ctx: typer.Context, cluster: ClusterOption = None, system: SystemOption = False) -> None:
    """List consumer groups and the brokers that have them.

    \b
    Examples:
      mqctl consumer list
      mqctl consumer list --system -o json
    """
    session = session_of(ctx)
    known = session.ask(lambda admin: find_groups(admin, cluster))
    rows = [{"group": group, "brokers": sorted(known.brokers[group])} for group in _wanted(known, system)]
    session.print_rows([Column("group"), Column("brokers")], rows)
    report_missing(session, known.failed)


def _wanted(known: KnownGroups, system: bool) -> list[str]:
    from mqctl.names import is_system_group

    return [group for group in known.brokers if system or not is_system_group(group)]


# -- progress -------------------------------------------------------------------------------------------

GROUPS: Final = [
    Column("group"),
    Column("clients", show=count_text),
    Column("version"),
    Column("consumeType", "TYPE", type_text),
    Column("messageModel", "MODEL", str.lower),
    Column("consumeTps", "TPS", rate_text),
    Column("diff", "BEHIND", count_text),
    Column("lastTimestamp", "LAST CONSUMED", time_text, wide=True),
]

QUEUES: Final = [
    Column("topic"),
    Column("brokerName", "BROKER"),
    Column("queueId", "QUEUE"),
    Column("brokerOffset", "END"),
    Column("consumerOffset", "CONSUMED"),
    Column("diff", "BEHIND", count_text),
    Column("inflight", show=count_text, wide=True),
    Column("lastTimestamp", "LAST CONSUMED", time_text),
]


@app.command(cls=AdminCommand)
def progress(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", autocompletion=complete_groups)] = None,
    topic: Annotated[str | None, typer.Option("-t", "--topic", metavar="TOPIC", autocompletion=complete_topics)] = None,
    clients: Annotated[bool, typer.Option("--clients", help="With the client that reads each queue.")] = False,
    cluster: ClusterOption = None,
    system: SystemOption = False,
    every: WatchOption = None,
) -> None:
    """Show how far consumer groups are: all of them, or one of them queue by queue.

    See `mqctl lag` for who is behind, and for how long.

    \b
    Examples:
      mqctl consumer progress
      mqctl consumer progress order-service --clients
      mqctl consumer progress order-service -t orders -o json
    """
    session = session_of(ctx)

    def show_all(seen: tuple[list[GroupProgress], dict[str, MqError]]) -> None:
        found, failed = seen
        _show_all(session, found)
        report_missing(session, failed)

    def show_one(progress: GroupProgress) -> None:
        _show_one(session, progress, clients)
        report_missing(session, progress.failed)

    if group is None:
        watch(session, every, lambda admin: _all(session, admin, cluster, system), show_all)
    else:
        watch(session, every, _one_group(group, topic, clients, cluster), show_one)


async def _all(
    session: Session, admin: Admin, cluster: str | None, system: bool
) -> tuple[list[GroupProgress], dict[str, MqError]]:
    from mqctl.client.admin.progress import progress_of

    known = await find_groups(admin, cluster)
    groups = _wanted(known, system)
    with Counting(session, "asked about", sum(len(known.brokers[group]) for group in groups)) as told:
        found = await progress_of(admin, known, groups, told=told)
    failed = {name: error for progress in found for name, error in progress.failed.items()}
    return found, {**failed, **known.failed}


def _show_all(session: Session, found: list[GroupProgress]) -> None:
    found.sort(key=lambda progress: (-progress.behind, progress.group))
    session.print_rows(GROUPS, [_group_row(progress) for progress in found])


def _group_row(progress: GroupProgress) -> dict[str, Any]:
    from mqctl.client.admin.consumers import version_text

    connection = progress.connection
    clients = connection.connection_set if connection is not None else []
    return {
        "group": progress.group,
        "clients": len(clients),
        "version": version_text(min(client.version for client in clients)) if clients else None,
        "consumeType": connection.consume_type if connection is not None else None,
        "messageModel": connection.message_model if connection is not None else None,
        "consumeTps": round(progress.tps, 2),
        "diff": progress.behind,
        "lastTimestamp": progress.last_timestamp,
    }


def _one_group(
    group: str, topic: str | None, clients: bool, cluster: str | None
) -> Callable[[Admin], Awaitable[GroupProgress]]:
    async def work(admin: Admin) -> GroupProgress:
        from mqctl.client.admin.progress import add_clients, progress_of

        if topic is not None:
            await admin.topic_route(topic)
        known = await find_groups(admin, cluster)
        known.find(group)
        [progress] = await progress_of(admin, known, [group], topic=topic)
        progress.failed.update(known.failed)
        if clients:
            await add_clients(admin, known, [progress])
        return progress

    return work


def _show_one(session: Session, progress: GroupProgress, clients: bool) -> None:
    columns = [*QUEUES, Column("clientId", "CLIENT")] if clients else QUEUES
    session.print_rows(columns, [_queue_row(queue) for queue in progress.queues])
    session.env.say(f"{count_text(progress.behind)} messages behind, consumes {rate_text(progress.tps)} a second")


def _queue_row(queue: QueueProgress) -> dict[str, Any]:
    return {
        "topic": queue.queue.topic,
        "brokerName": queue.queue.broker_name,
        "queueId": queue.queue.queue_id,
        "brokerOffset": queue.broker_offset,
        "consumerOffset": queue.consumer_offset,
        "diff": queue.behind,
        "inflight": queue.inflight,
        "lastTimestamp": queue.last_timestamp,
        "clientId": queue.client_id,
    }
