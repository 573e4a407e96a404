"""`mqctl consumer status`: what clients say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.consumer.shared import GroupArgument, app, find_groups
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.watching import WatchOption, watch
from mqctl.exit import ExitCode
from mqctl.figures import count_text, rate_text
from mqctl.output import Column, Format
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.errors import MqError
    from mqctl.remoting.bodies import Connection
    from mqctl.remoting.bodies_consumer import ConsumerRunningInfo

    Said = tuple[list[Connection], dict[str, ConsumerRunningInfo | MqError]]

CLIENTS: Final = [
    Column("clientId", "CLIENT"),
    Column("version"),
    Column("startTimestamp", "STARTED", time_text),
    Column("queues", show=count_text),
    Column("cachedMsgs", "IN HAND", count_text),
    Column("consumeRT", "MS EACH", count_text),
    Column("consumeOKTPS", "OK/S", rate_text),
    Column("consumeFailedTPS", "FAILED/S", rate_text),
    Column("pullTPS", "PULLED/S", rate_text, wide=True),
    Column("subscriptions", wide=True),
    Column("verdict", show=lambda verdict: "; ".join(verdict) or "ok"),
]

QUEUES: Final = [
    Column("topic"),
    Column("brokerName", "BROKER"),
    Column("queueId", "QUEUE"),
    Column("commitOffset", "CONSUMED"),
    Column("cachedMsgCount", "IN HAND", count_text),
    Column("cachedMsgSizeInMiB", "MIB", count_text, wide=True),
    Column("locked", wide=True),
    Column("lastPullTimestamp", "LAST PULL", time_text),
    Column("lastConsumeTimestamp", "LAST CONSUMED", time_text),
]


@app.command(cls=AdminCommand)
def status(
    ctx: typer.Context,
    group: GroupArgument,
    client: Annotated[
        str | None, typer.Option("-i", "--client", metavar="CLIENT", help="The queues of this client.")
    ] = None,
    stacks: Annotated[bool, typer.Option("-s", "--stacks", help="With the stacks of the clients' threads.")] = False,
    cluster: ClusterOption = None,
    every: WatchOption = None,
) -> None:
    """Ask the clients of a consumer group how they are, and judge what they say.

    A verdict other than ok: it subscribes otherwise than the rest of the group, it does not get on with messages that
    it has in hand, or it cannot lock a queue that is consumed in order.

    \b
    Examples:
      mqctl consumer status order-service --watch 5
      mqctl consumer status order-service --client 10.0.0.7@4711 --stacks
    """
    session = session_of(ctx)
    watch(
        session,
        every,
        lambda admin: _ask(admin, group, client, stacks, cluster),
        lambda said: _show(session, said, client, stacks),
    )


def _show(session: Session, said: Said, client: str | None, stacks: bool) -> None:
    from mqctl.errors import MqError

    clients, answers = said
    infos = {name: info for name, info in answers.items() if not isinstance(info, MqError)}
    silent = {name: error for name, error in answers.items() if isinstance(error, MqError)}
    if silent and not infos:
        raise next(iter(silent.values()))
    if client is None:
        _print_clients(session, clients, infos, stacks)
    else:
        session.print_rows(QUEUES, _queue_rows(infos[client]))
    if stacks and session.output in (None, Format.TABLE, Format.WIDE):
        _print_stacks(session, infos)
    for name, error in silent.items():
        session.env.say(f"warning: {name} does not answer: {error.message}")
    if silent:
        raise typer.Exit(ExitCode.PARTIAL)


async def _ask(admin: Admin, group: str, client: str | None, stacks: bool, cluster: str | None) -> Said:
    from mqctl.client.admin.consumers import members, running_infos
    from mqctl.client.admin.everywhere import guess
    from mqctl.errors import NotFound

    brokers = (await find_groups(admin, cluster)).find(group)
    found = await members(admin, brokers, group)
    if found is None:
        raise NotFound(f"no consumer of {group} is connected")
    names = [connection.client_id for connection in found.connection_set]
    if client is not None and client not in names:
        raise NotFound(f"the group {group} has no client {client}", hint=guess(client, names))
    asked = names if client is None else [client]
    return found.connection_set, await running_infos(admin, brokers, group, asked, stacks=stacks)


def _print_clients(
    session: Session, clients: list[Connection], infos: dict[str, ConsumerRunningInfo], stacks: bool
) -> None:
    from mqctl.client.admin.consumers import version_text
    from mqctl.client.admin.diagnosis import verdicts

    verdict = verdicts(infos, int(session.env.clock() * 1000))
    rows = []
    for client in clients:
        if (info := infos.get(client.client_id)) is not None:
            row = {"clientId": client.client_id, "version": version_text(client.version), **_client_figures(info)}
            row["verdict"] = verdict[client.client_id]
            rows.append({**row, "jstack": info.jstack} if stacks else row)
    session.print_rows(CLIENTS, rows)


def _client_figures(info: ConsumerRunningInfo) -> dict[str, Any]:
    topics = list(info.status_table.values())
    busiest = max((topic.consume_rt for topic in topics), default=0.0)
    started = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    return {
        "startTimestamp": int(started) if started.isdecimal() else 0,
        "queues": len(info.mq_table),
        "cachedMsgs": sum(queue.cached_msg_count for queue in info.mq_table.values()),
        "consumeRT": round(busiest, 2),
        "consumeOKTPS": round(sum(topic.consume_ok_tps for topic in topics), 2),
        "consumeFailedTPS": round(sum(topic.consume_failed_tps for topic in topics), 2),
        "pullTPS": round(sum(topic.pull_tps for topic in topics), 2),
        "subscriptions": {data.topic: data.sub_string for data in info.subscription_set},
    }


def _queue_rows(info: ConsumerRunningInfo) -> list[dict[str, Any]]:
    return [
        {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "commitOffset": state.commit_offset,
            "cachedMsgCount": state.cached_msg_count,
            "cachedMsgSizeInMiB": state.cached_msg_size_in_mib,
            "locked": state.locked,
            "lastPullTimestamp": state.last_pull_timestamp,
            "lastConsumeTimestamp": state.last_consume_timestamp,
        }
        for queue, state in sorted(info.mq_table.items())
    ]


def _print_stacks(session: Session, infos: dict[str, ConsumerRunningInfo]) -> None:
    for name, info in infos.items():
        session.env.stdout.write(f"\n{name}\n{info.jstack or 'no stacks: the client does not give them'}\n")
