"""Moving consumer groups to other offsets: first a plan that can be shown, then the moves.

Consumers that run keep their offsets in memory and write them to the broker every few seconds, over whatever an
operator put there. So a running group is moved by asking the broker to tell its members, which takes a time and knows
no offsets; a group that rests is moved by writing its offsets.

A broker that cannot be asked is left out of a plan as a whole, and said to be so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import members
from mqctl.client.admin.everywhere import Answers, ask_all, ask_each
from mqctl.client.admin.progress import consume_stats
from mqctl.client.admin.topics import masters_of
from mqctl.errors import ConfigError, ConnectionFailed, MqError, NotFound, RequestTimeout, ResponseError
from mqctl.names import RETRY_PREFIX
from mqctl.remoting.bodies import MessageQueue, ResetOffsetBody
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command

# RocketMQ's ways to say "from the first message on" and "from the end on" where a time is asked for.
EARLIEST: Final = 0
LATEST: Final = -1


@dataclass(slots=True)
class Move:
    """One queue. `before` is None where the group never committed an offset; `error` is why it was not moved."""

    queue: MessageQueue
    address: str
    min_offset: int
    max_offset: int
    before: int | None
    after: int
    error: MqError | None = None


@dataclass(slots=True)
class Plan:
    group: str
    moves: list[Move] = field(default_factory=list)
    running: int = 0  # clients that are connected
    left_out: dict[str, MqError] = field(default_factory=dict)  # by broker name

    @property
    def possible(self) -> list[Move]:
        """Those that did not fail, when they are made already."""
        return [move for move in self.moves if move.error is None]

    @property
    def again(self) -> int:
        """How many messages will be consumed a second time."""
        return sum(max(0, move.before - max(move.after, move.min_offset)) for move in self.possible if move.before)

    @property
    def skipped(self) -> int:
        """How many will never be consumed."""
        return sum(max(0, move.after - max(move.before or 0, move.min_offset)) for move in self.possible)


# -- what brokers know ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queues:
    """Queues with the address of their master, and the brokers that have none."""

    addresses: dict[MessageQueue, str]
    headless: dict[str, MqError]


async def topic_queues(admin: Admin, topic: str) -> Queues:
    """All that may hold messages. Raises NotFound."""
    route = await admin.topic_route(topic)
    masters = masters_of(route.broker_datas)
    found = {
        MessageQueue(topic, data.broker_name, queue_id): masters.given[data.broker_name]
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.broker_name in masters.given
        for queue_id in range(max(data.read_queue_nums, data.write_queue_nums))
    }
    if not found:
        raise NotFound(f"no master of the topic {topic} is running")
    return Queues(found, masters.failed)


async def group_masters(admin: Admin, brokers: Collection[str]) -> Answers[str]:
    """Addresses of the masters of these brokers: a slave tells offsets, but what it is told its master overwrites.
    Raises NotFound when all are away."""
    table = (await admin.cluster_info()).broker_addr_table
    found = masters_of(table[name] for name in brokers if name in table)
    if not found.given:
        raise NotFound(f"no master of {', '.join(brokers)} is running")
    return found


async def committed_offset(admin: Admin, address: str, group: str, queue: MessageQueue) -> int | None:
    fields = {**_queue_fields(queue), "consumerGroup": group, "setZeroIfNotFound": "false"}
    try:
        answer = await admin.call(address, Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=fields))
    except ResponseError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
    return _offset(answer)


async def commit_offset(admin: Admin, address: str, group: str, queue: MessageQueue, offset: int) -> None:
    fields = {**_queue_fields(queue), "consumerGroup": group, "commitOffset": str(offset)}
    await admin.call(address, Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=fields))


async def _ask_offset(admin: Admin, address: str, code: RequestCode, queue: MessageQueue, **more: str) -> int:
    return _offset(await admin.call(address, Command(code, ext={**_queue_fields(queue), **more})))


def _queue_fields(queue: MessageQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}


def _offset(answer: Command) -> int:
    text = answer.fields().get("offset", "")
    try:
        return int(text)
    except ValueError:
        raise MqError(f"a broker answered with an offset that is no number: {text!r}") from None


# -- planning -------------------------------------------------------------------------------------------


async def _move(admin: Admin, group: str, queue: MessageQueue, address: str) -> Move:
    """Where the group is, and for now stays."""
    least = await _ask_offset(admin, address, RequestCode.GET_MIN_OFFSET, queue)
    end = await _ask_offset(admin, address, RequestCode.GET_MAX_OFFSET, queue)
    before = await committed_offset(admin, address, group, queue)
    return Move(queue, address, max(0, least), end, before, before or 0)


async def current(admin: Admin, group: str, queues: Queues) -> Plan:
    """Raises the first failure when no broker answers."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues.addresses:
        by_broker.setdefault(queue.broker_name, []).append(queue)

    async def ask(name: str) -> list[Move]:
        return await ask_each(by_broker[name], lambda queue: _move(admin, group, queue, queues.addresses[queue]))

    answers = await ask_all({name: name for name in by_broker}, ask)
    moves = [move for found in answers.given.values() for move in found]
    connection = await members(admin, {move.queue.broker_name: move.address for move in moves}, group)
    running = len(connection.connection_set) if connection is not None else 0
    return Plan(group, moves, running, {**queues.headless, **answers.failed})


async def _aim(plan: Plan, aim: Callable[[Move], Awaitable[None]]) -> None:
    """Raises the first failure when no broker answers."""
    by_broker: dict[str, list[Move]] = {}
    for move in plan.moves:
        by_broker.setdefault(move.queue.broker_name, []).append(move)
    answers = await ask_all({name: name for name in by_broker}, lambda name: ask_each(by_broker[name], aim))
    plan.moves = [move for name in answers.given for move in by_broker[name]]
    plan.left_out |= answers.failed


async def plan_by_time(admin: Admin, group: str, topic: str, timestamp_ms: int) -> Plan:
    """To the messages stored at that time or later; EARLIEST and LATEST stand for the ends."""
    plan = await current(admin, group, await topic_queues(admin, topic))
    await _aim(plan, lambda move: _to_time(admin, move, timestamp_ms))
    return plan


async def _to_time(admin: Admin, move: Move, timestamp_ms: int) -> None:
    if timestamp_ms == LATEST:
        move.after = move.max_offset
    elif timestamp_ms == EARLIEST:
        move.after = move.min_offset
    else:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        move.after = max(0, await _ask_offset(admin, move.address, code, move.queue, timestamp=str(timestamp_ms)))


async def plan_queue(
    admin: Admin,
    group: str,
    topic: str,
    broker: str | None,
    queue_id: int,
    *,
    offset: int | None = None,
    timestamp_ms: int = LATEST,
) -> Plan:
    """One queue, of a broker given by name or address, to an offset, or else to a time. Raises NotFound for a queue,
    ConfigError for an offset that does not exist."""
    every = await topic_queues(admin, topic)
    found = {
        queue: address
        for queue, address in every.addresses.items()
        if queue.queue_id == queue_id and broker in (None, queue.broker_name, address)
    }
    if broker is not None and broker in every.headless:
        raise every.headless[broker]
    if not found:
        raise NotFound(f"the topic {topic} has no queue {queue_id}" + (f" on {broker}" if broker else ""))
    if len(found) > 1:
        names = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in found)
        raise ConfigError(f"several brokers have such a queue: {names}", hint="write --queue BROKER:QUEUE")
    plan = await current(admin, group, Queues(found, {} if broker else every.headless))
    [move] = plan.moves
    if offset is None:
        await _to_time(admin, move, timestamp_ms)
    elif move.min_offset <= offset <= move.max_offset:
        move.after = offset
    else:
        raise ConfigError(f"the queue holds the offsets {move.min_offset} to {move.max_offset}, not {offset}")
    return plan


async def plan_clone(
    admin: Admin, source: str, target: str, brokers: Mapping[str, str], topic: str | None = None
) -> Plan:
    """The target to where the source is, in all topics that the source reads, or in one of them."""
    tables = await ask_all(brokers, lambda address: consume_stats(admin, address, source, topic))
    queues = {
        queue: brokers[queue.broker_name]
        for table in tables.given.values()
        for queue in sorted(table.offset_table)
        if not queue.topic.startswith(RETRY_PREFIX) and queue.broker_name in brokers
    }
    if not queues:
        raise NotFound(f"the group {source} has consumed nothing" + (f" of {topic}" if topic else ""))
    plan = await current(admin, target, Queues(queues, tables.failed))
    offsets: dict[MessageQueue, int | None] = {}

    async def aim(move: Move) -> None:
        offsets[move.queue] = await committed_offset(admin, move.address, source, move.queue)

    await _aim(plan, aim)
    plan.moves = [replace(move, after=at) for move in plan.moves if (at := offsets[move.queue]) is not None]
    return plan


# -- moving ---------------------------------------------------------------------------------------------


async def write_offsets(admin: Admin, group: str, moves: Iterable[Move]) -> None:
    """For a group that rests. Sets `error` of those that failed; the others are done."""

    # Apache's ConsumerOffsetManager loses one of the first two offsets in a topic that come at the same time.
    in_turn: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        in_turn.setdefault((move.address, move.queue.topic), []).append(move)

    async def write(place: tuple[str, str]) -> None:
        away: MqError | None = None  # it is not waited for once more for each queue
        for move in in_turn[place]:
            try:
                if away is None:
                    await commit_offset(admin, move.address, group, move.queue, move.after)
            except (ConnectionFailed, RequestTimeout) as error:
                away = error
            except MqError as error:
                move.error = error
            move.error = move.error or away

    await ask_each(in_turn, write)


async def reset_running(admin: Admin, plan: Plan, timestamp_ms: int) -> None:
    """For a group that runs: its members are told, and `after` becomes where they were sent. Sets `error` of those that
    failed; the others are done."""
    # Apache's 4.9.7 refuses to move a group that has no offset for one of the queues, even for one that nobody reads,
    # and says 0 rather than none of a queue whose first message it still holds in memory.
    await write_offsets(admin, plan.group, [move for move in plan.moves if not move.before])
    by_broker: dict[str, list[Move]] = {}
    for move in plan.possible:
        by_broker.setdefault(move.address, []).append(move)

    async def reset(address: str) -> None:
        try:
            await _reset_at(admin, plan.group, address, by_broker[address], timestamp_ms)
        except MqError as error:
            for move in by_broker[address]:
                move.error = error

    await ask_each(by_broker, reset)


async def _reset_at(admin: Admin, group: str, address: str, moves: list[Move], timestamp_ms: int) -> None:
    fields = {"topic": moves[0].queue.topic, "group": group, "timestamp": str(timestamp_ms), "isForce": "true"}
    try:
        answer = await admin.call(address, Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext=fields))
    except ResponseError as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        await write_offsets(admin, group, moves)  # its members are all connected to other brokers
        return
    table = admin.decode(ResetOffsetBody, answer).offset_table
    for move in moves:
        move.after = table.get(move.queue, move.after)
