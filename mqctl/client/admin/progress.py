"""How far consumer groups are behind: in messages, in time, and whose queues they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import KnownGroups, consumer_connection, members, running_infos
from mqctl.client.admin.everywhere import ask_each
from mqctl.errors import MqError, ResponseError
from mqctl.remoting.bodies import ConsumerConnection, ConsumeStats, MessageQueue
from mqctl.remoting.bodies_admin import ConsumeTimeSpans
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command


@dataclass(slots=True)
class QueueProgress:
    """One queue of one group. `delay_ms` is how long its next message has been waiting, None until asked for;
    `client_id` is who reads it, likewise."""

    group: str
    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_timestamp: int  # when the message it consumed last was stored
    inflight: int | None  # handed out and not committed, where the broker knows (5.x, ours)
    delay_ms: int | None = None
    client_id: str | None = None

    @property
    def behind(self) -> int:
        """A queue that was cleaned or set back may end before the group's offset."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(slots=True)
class GroupProgress:
    group: str
    queues: list[QueueProgress] = field(default_factory=list)
    tps: float = 0.0
    connection: ConsumerConnection | None = None
    failed: dict[str, MqError] = field(default_factory=dict)  # by broker name

    @property
    def behind(self) -> int:
        return sum(queue.behind for queue in self.queues)

    @property
    def last_timestamp(self) -> int:
        return max((queue.last_timestamp for queue in self.queues), default=0)


async def consume_stats(admin: Admin, address: str, group: str, topic: str | None = None) -> ConsumeStats:
    fields = {"consumerGroup": group} if topic is None else {"consumerGroup": group, "topic": topic}
    return admin.decode(ConsumeStats, await admin.call(address, Command(RequestCode.GET_CONSUME_STATS, ext=fields)))


async def progress_of(
    admin: Admin,
    known: KnownGroups,
    groups: Iterable[str],
    *,
    topic: str | None = None,
    told: Callable[[int], None] | None = None,
) -> list[GroupProgress]:
    """Of each group, from all brokers that have it, in the order given. `told` hears after each answer how many came.

    GET_BROKER_CONSUME_STATS would tell of all groups at once, but Apache's broker leaves out there what the group never
    committed for, and keeps topics that it reads no more. Asked one by one over the same connection, hundreds of groups
    take a fraction of a second as well.
    """
    found = {group: GroupProgress(group) for group in groups}

    async def ask(pair: tuple[str, str, str]) -> None:
        group, name, address = pair
        progress = found[group]
        try:
            stats = await consume_stats(admin, address, group, topic)
            connection = await consumer_connection(admin, address, group)
        except MqError as error:
            progress.failed[name] = error
            return
        progress.tps += stats.consume_tps
        progress.queues.extend(_queue(group, queue, stats) for queue in stats.offset_table)
        _merge(progress, connection)

    await ask_each(
        [(group, name, address) for group in found for name, address in known.find(group).items()], ask, told
    )
    for progress in found.values():
        progress.queues.sort(key=lambda queue: queue.queue)
    return list(found.values())


def _queue(group: str, queue: MessageQueue, stats: ConsumeStats) -> QueueProgress:
    at = stats.offset_table[queue]
    inflight = at.pull_offset - at.consumer_offset if isinstance(at.pull_offset, int) else None
    return QueueProgress(group, queue, at.broker_offset, at.consumer_offset, at.last_timestamp, inflight)


def _merge(progress: GroupProgress, connection: ConsumerConnection | None) -> None:
    """A client is connected to several brokers and counts once."""
    if connection is None:
        return
    if progress.connection is None:
        progress.connection = connection
        return
    known = {client.client_id for client in progress.connection.connection_set}
    progress.connection.connection_set += [
        client for client in connection.connection_set if client.client_id not in known
    ]


async def add_delays(
    admin: Admin, brokers: Mapping[str, str], progresses: Iterable[GroupProgress], now_ms: int
) -> None:
    """Sets `delay_ms` of all queues. Where a broker cannot tell when the next message was stored, it is guessed from
    the last one that was consumed."""
    late: dict[tuple[str, str, str], list[QueueProgress]] = {}
    for progress in progresses:
        for queue in progress.queues:
            queue.delay_ms = 0 if queue.behind == 0 else None
            if queue.behind:
                late.setdefault((queue.group, queue.queue.topic, queue.queue.broker_name), []).append(queue)

    async def ask(key: tuple[str, str, str]) -> None:
        group, topic, broker_name = key
        delays = await _delays(admin, brokers[broker_name], group, topic) if broker_name in brokers else {}
        for queue in late[key]:
            last = queue.last_timestamp
            queue.delay_ms = delays.get(queue.queue.queue_id) or (max(0, now_ms - last) if last > 0 else None)

    await ask_each(late, ask)


async def _delays(admin: Admin, address: str, group: str, topic: str) -> dict[int, int]:
    command = Command(RequestCode.QUERY_CONSUME_TIME_SPAN, ext={"group": group, "topic": topic})
    try:
        spans = admin.decode(ConsumeTimeSpans, await admin.call(address, command)).consume_time_span_set
    except ResponseError:
        return {}
    return {span.message_queue.queue_id: span.delay_time for span in spans}


async def add_clients(admin: Admin, known: KnownGroups, progresses: Iterable[GroupProgress]) -> None:
    """Sets `client_id` of all queues whose reader tells that it has them."""

    async def ask(progress: GroupProgress) -> None:
        brokers = known.find(progress.group)
        connection = progress.connection or await members(admin, brokers, progress.group)
        clients = [client.client_id for client in connection.connection_set] if connection is not None else []
        infos = await running_infos(admin, brokers, progress.group, clients)
        readers = {
            queue: client for client, info in infos.items() if not isinstance(info, MqError) for queue in info.mq_table
        }
        for queue in progress.queues:
            queue.client_id = readers.get(queue.queue)

    await ask_each(list(progresses), ask)
