"""`mqctl lag`: who is behind, by how many messages and for how long, the worst first."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of, single
from mqctl.commands.completing import complete_groups, complete_topics
from mqctl.commands.consumer.shared import find_groups
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import Counting, tell_missing
from mqctl.commands.watching import WatchOption, watch
from mqctl.exit import ExitCode
from mqctl.figures import count_text, seconds_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.progress import GroupProgress
    from mqctl.errors import MqError

app = single()


class By(StrEnum):
    GROUP = "group"
    TOPIC = "topic"
    QUEUE = "queue"
    CLIENT = "client"


class Sort(StrEnum):
    SECONDS = "seconds"
    MESSAGES = "messages"


_GROUP: Final = {"group": attrgetter("group")}
_TOPIC: Final = {**_GROUP, "topic": attrgetter("queue.topic")}
# What tells the rows apart, out of a QueueProgress.
_NAMES: Final = {
    By.GROUP: _GROUP,
    By.TOPIC: _TOPIC,
    By.QUEUE: {**_TOPIC, "brokerName": attrgetter("queue.broker_name"), "queueId": attrgetter("queue.queue_id")},
    By.CLIENT: {**_GROUP, "clientId": attrgetter("client_id")},
}


FIGURES: Final = [
    Column("lag", "MESSAGES", count_text),
    Column("seconds", "BEHIND FOR", seconds_text),
    Column("clients", show=count_text),
    Column("queues", show=count_text, wide=True),
]


@app.command(cls=AdminCommand)
def lag(
    ctx: typer.Context,
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", autocompletion=complete_groups)] = None,
    topic: Annotated[str | None, typer.Option("-t", "--topic", metavar="TOPIC", autocompletion=complete_topics)] = None,
    by: Annotated[By, typer.Option("--by", help="What a line is about.")] = By.TOPIC,
    sort: Annotated[Sort, typer.Option("--sort", help="What is worse.")] = Sort.SECONDS,
    all_rows: Annotated[bool, typer.Option("--all", help="Also those that are not behind.")] = False,
    max_lag: Annotated[
        int | None, typer.Option("--max-lag", min=0, metavar="N", help="End with 8 if a line has more messages.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0, metavar="S", help="End with 8 if a line is older.")
    ] = None,
    cluster: ClusterOption = None,
    every: WatchOption = None,
) -> None:
    """Show which consumer groups are behind, by how many messages and for how long, the worst first.

    For how long: since when the oldest message that is not consumed yet has been waiting. With --max-lag or
    --max-seconds the exit status is 8 when one line exceeds it, for alerts.

    \b
    Examples:
      mqctl lag
      mqctl lag order-service --by queue
      mqctl lag --by client --watch 5
      mqctl lag --max-lag 10000 --max-seconds 300 -o json
    """
    session = session_of(ctx)
    limits = (max_lag, max_seconds)
    if every is not None and limits != (None, None):
        raise typer.BadParameter("a command that goes on has no exit status to give: leave out --watch")

    async def work(admin: Admin) -> tuple[list[GroupProgress], dict[str, MqError]]:
        return await _measure(session, admin, groups or [], topic, cluster, by is By.CLIENT)

    def show(measured: tuple[list[GroupProgress], dict[str, MqError]]) -> None:
        found, failed = measured
        rows = _rows(found, by, sort, all_rows)
        session.print_rows([*map(Column, _NAMES[by]), *FIGURES], rows)
        tell_missing(session, failed)
        _alert(session, rows, *limits)
        if failed:
            raise typer.Exit(ExitCode.PARTIAL)

    watch(session, every, work, show)


async def _measure(
    session: Session, admin: Admin, groups: list[str], topic: str | None, cluster: str | None, with_clients: bool
) -> tuple[list[GroupProgress], dict[str, MqError]]:
    from mqctl.client.admin.everywhere import brokers_of
    from mqctl.client.admin.progress import add_clients, add_delays, progress_of
    from mqctl.names import is_system_group

    if topic is not None:
        await admin.topic_route(topic)  # nobody is behind in a topic that does not exist, and no alert would tell
    known = await find_groups(admin, cluster)
    for group in groups:
        known.find(group)
    wanted = groups or [group for group in known.brokers if not is_system_group(group)]
    with Counting(session, "asked about", sum(len(known.brokers[group]) for group in wanted)) as told:
        found = await progress_of(admin, known, wanted, topic=topic, told=told)
    brokers = brokers_of(await admin.cluster_info(), cluster)
    await add_delays(admin, brokers, found, int(session.env.clock() * 1000))
    if with_clients:
        await add_clients(admin, known, [progress for progress in found if progress.behind])
    failed = {name: error for progress in found for name, error in progress.failed.items()}
    return found, {**failed, **known.failed}


def _rows(found: Iterable[GroupProgress], by: By, sort: Sort, all_rows: bool) -> list[dict[str, Any]]:
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for progress in found:
        clients = len(progress.connection.connection_set) if progress.connection is not None else 0
        for at in progress.queues:
            names = {name: value_of(at) for name, value_of in _NAMES[by].items()}
            start = {**names, "lag": 0, "seconds": 0.0, "clients": clients, "queues": 0}
            row = rows.setdefault(tuple(names.values()), start)
            row["lag"] += at.behind
            row["seconds"] = max(row["seconds"], (at.delay_ms or 0) / 1000)
            row["queues"] += 1
    figures = ("seconds", "lag") if sort is Sort.SECONDS else ("lag", "seconds")
    kept = [row for row in rows.values() if all_rows or row["lag"]]
    return sorted(kept, key=lambda row: tuple(-row[figure] for figure in figures))


def _alert(session: Session, rows: list[dict[str, Any]], max_lag: int | None, max_seconds: float | None) -> None:
    bad = [
        row
        for row in rows
        if (max_lag is not None and row["lag"] > max_lag) or (max_seconds is not None and row["seconds"] > max_seconds)
    ]
    if bad:
        session.env.say(f"{len(bad)} of {len(rows)} lines exceed the limit")
        raise typer.Exit(ExitCode.ALERT)
