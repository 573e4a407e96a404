"""What consumers ask brokers about one queue: messages, bounds, positions of the group."""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from mqctl.client.clusters import MASTER_ID, readable_address
from mqctl.client.engine import Engine
from mqctl.client.subscriptions import SQL92, wanted_of
from mqctl.errors import ConnectionFailed, MqError, RequestTimeout, ResponseError
from mqctl.remoting.bodies import CheckClientBody, MessageQueue, SubscriptionData, encode
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, HeaderError, header_fields
from mqctl.remoting.headers import (
    PullMessageHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    TopicQueueHeader,
    UpdateConsumerOffsetHeader,
)
from mqctl.remoting.message import ReceivedMessage, decode_records
from mqctl.store.record import RecordError

FLAG_COMMIT_OFFSET: Final = 1
FLAG_SUSPEND: Final = 2
FLAG_SUBSCRIPTION: Final = 4

# How long a broker may hold a pull that finds nothing, and how much later its answer may come.
HOLD_MS: Final = 15_000
HOLD_SLACK_S: Final = 15.0

_WITH_NEXT_OFFSET: Final = frozenset(
    {
        ResponseCode.SUCCESS.value,
        ResponseCode.PULL_NOT_FOUND.value,
        ResponseCode.PULL_RETRY_IMMEDIATELY.value,
        ResponseCode.PULL_OFFSET_MOVED.value,
    }
)


class Pulled(NamedTuple):
    messages: list[ReceivedMessage]
    next_offset: int
    moved: bool  # the offset asked for does not exist; the broker says where to go on


class Reader:
    """Loop only. Methods raise ConnectionFailed, RequestTimeout, or ResponseError for an answer that is no success."""

    def __init__(self, engine: Engine, group: str, *, states_filter: bool) -> None:
        """`states_filter`: every pull says what it wants, so that the broker need not know it from heartbeats."""
        self._engine = engine
        self._group = group
        self._states_filter = states_filter
        # Which member of a broker to pull from, as it suggested: a slave while the master is busy with old messages.
        self._suggested: dict[MessageQueue, int] = {}

    async def check_filter(self, subscription: SubscriptionData) -> None:
        """Asks a broker of the topic, before anything is pulled, whether it takes the expression, as Java's clients do
        at their start. Raises ResponseError if not; that nobody can be asked now is no reason to refuse."""
        route = self._engine.routes.known(subscription.topic)
        if subscription.expression_type != SQL92 or route is None:
            return
        question = CheckClientBody(client_id=self._engine.client_id, group=self._group, subscription_data=subscription)
        for broker in route.broker_datas:
            address = readable_address(broker.broker_addrs)
            if address is not None:
                with contextlib.suppress(ConnectionFailed, RequestTimeout):
                    await self._engine.call(address, Command(RequestCode.CHECK_CLIENT_CONFIG, body=encode(question)))

    async def pull(
        self, queue: MessageQueue, offset: int, subscription: SubscriptionData, *, count: int, commit: int | None
    ) -> Pulled:
        """Waits at the broker while there is nothing. `commit` goes along as the group's position."""
        broker_id, address = self._pull_address(queue)
        # Positions are the master's; a slave gets them from there.
        commit_flag = FLAG_COMMIT_OFFSET if commit is not None and broker_id == MASTER_ID else 0
        header = PullMessageHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=FLAG_SUSPEND | commit_flag | (FLAG_SUBSCRIPTION if self._states_filter else 0),
            commit_offset=commit or 0,
            suspend_timeout_millis=HOLD_MS,
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string if self._states_filter else None,
            expression_type=subscription.expression_type,
        )
        command = Command(RequestCode.PULL_MESSAGE, ext=header_fields(header))
        try:
            answer = await self._engine.request(address, command, HOLD_MS / 1000 + HOLD_SLACK_S)
        except (ConnectionFailed, RequestTimeout):
            self._suggested.pop(queue, None)  # a slave that died is in the routes for a while; the master may be well
            raise
        if answer.code not in _WITH_NEXT_OFFSET:
            raise ResponseError(answer.code, answer.remark, address)
        fields = _fields(answer)
        self._suggested[queue] = _number(fields, "suggestWhichBrokerId", MASTER_ID)
        messages = _decode(answer.body, queue.broker_name) if answer.code == ResponseCode.SUCCESS else []
        return Pulled(
            wanted_of(messages, subscription),
            _number(fields, "nextBeginOffset", offset),
            answer.code == ResponseCode.PULL_OFFSET_MOVED,
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        return await self._bound(queue, RequestCode.GET_MIN_OFFSET)

    async def max_offset(self, queue: MessageQueue) -> int:
        """That of the next message."""
        return await self._bound(queue, RequestCode.GET_MAX_OFFSET)

    async def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        """That of the message stored nearest to this time."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
        return await self._offset(queue, Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext=header_fields(header)))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's position; None when it has none there."""
        header = QueryConsumerOffsetHeader(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return await self._offset(queue, Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=header_fields(header)))
        except ResponseError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        await self._engine.call(
            self.address(queue), Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=header_fields(header))
        )

    def address(self, queue: MessageQueue) -> str:
        """Of the master, or of a slave while there is none."""
        address = readable_address(self._engine.routes.brokers.get(queue.broker_name, {}))
        if address is None:
            raise ConnectionFailed(f"no address of broker {queue.broker_name} is known")
        return address

    def _pull_address(self, queue: MessageQueue) -> tuple[int, str]:
        members = self._engine.routes.brokers.get(queue.broker_name, {})
        suggested = self._suggested.get(queue, MASTER_ID)
        if suggested in members:
            return suggested, members[suggested]
        address = self.address(queue)
        return min(members), address

    async def _bound(self, queue: MessageQueue, code: RequestCode) -> int:
        header = TopicQueueHeader(topic=queue.topic, queue_id=queue.queue_id)
        return await self._offset(queue, Command(code, ext=header_fields(header)))

    async def _offset(self, queue: MessageQueue, command: Command) -> int:
        answer = await self._engine.call(self.address(queue), command)
        return _number(_fields(answer), "offset", 0)


def _fields(answer: Command) -> dict[str, str]:
    try:
        return answer.fields()
    except HeaderError as error:
        raise MqError(f"the broker's answer cannot be read: {error}") from None


def _number(fields: dict[str, str], name: str, absent: int) -> int:
    try:
        return int(fields.get(name, absent))
    except ValueError:
        raise MqError(f"the broker's answer has no number in {name}: {fields[name]!r}") from None


def _decode(body: bytes, broker_name: str) -> list[ReceivedMessage]:
    try:
        return decode_records(body, broker_name)
    except RecordError as error:
        raise MqError(f"a pulled message cannot be read: {error}") from None
