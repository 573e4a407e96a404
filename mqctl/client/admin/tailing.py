"""Following a topic: every queue of every broker, from some point on, without a group and without offsets.

One task per queue keeps a long poll open at its broker and hands messages to whoever iterates. The queues are
those of the start: a topic that grows while it is followed has to be followed anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from enum import Enum
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.clusters import readable_address
from mqctl.errors import MqError, ResponseError
from mqctl.remoting.bodies import MessageQueue, TopicRouteData
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import PullMessageHeader, SearchOffsetHeader, TopicQueueHeader
from mqctl.remoting.message import ReceivedMessage, decode_records
from mqctl.remoting.topicbits import PERM_READ
from mqctl.store.record import RecordError

# Every broker has this group from the start, for tools that read without being consumers.
CONSUMER_GROUP: Final = "TOOLS_CONSUMER"

FLAG_SUSPEND: Final = 2
FLAG_SUBSCRIPTION: Final = 4

# How long a broker may hold a pull that finds nothing: what push consumers ask for. 4.9.7 looks at the time
# every 5 s only, so the answer may be that much later.
HOLD_MS: Final = 15_000
HOLD_SLACK_S: Final = 15.0

MESSAGES_PER_PULL: Final = 32
# Messages read ahead of whoever iterates, over all queues; then brokers are asked no more until he caught up.
READ_AHEAD: Final = 1024
RETRY_SECONDS: Final = 1.0

MATCH_ALL: Final = "*"

# Answers to a pull that are no reason to stop.
GO_ON: Final = frozenset(
    {
        ResponseCode.SUCCESS.value,
        ResponseCode.PULL_NOT_FOUND.value,
        ResponseCode.PULL_RETRY_IMMEDIATELY.value,
        ResponseCode.PULL_OFFSET_MOVED.value,
    }
)


class Start(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


class Tail:
    """Loop only. First `open`, which settles where each queue begins, then iterate; messages of one queue come
    in order. `on_trouble` hears once when a broker does not answer, or no longer; it is asked again until it does.
    `silent` has by name those that did not answer yet."""

    def __init__(
        self,
        admin: Admin,
        topic: str,
        *,
        tags: str = MATCH_ALL,
        start: Start | int = Start.LATEST,
        on_trouble: Callable[[MqError], None] = lambda error: None,
    ) -> None:
        """`tags`: as consumers write it, `a || b`. `start`: or a time, in ms, from when on messages count."""
        self._admin = admin
        self._topic = topic
        self._expression = tags.strip() or MATCH_ALL
        self._tags = frozenset(tag.strip() for tag in self._expression.split("||"))
        self._start = start
        self._on_trouble = on_trouble
        self._arrived: asyncio.Queue[ReceivedMessage | MqError] = asyncio.Queue(READ_AHEAD)
        # Each with its address and the first message wanted, None while its broker has not said which that is.
        self._begins: list[tuple[MessageQueue, str, int | None]] = []
        self._troubled: set[str] = set()
        self.silent: dict[str, MqError] = {}

    async def open(self) -> int:
        """How many queues there are to follow. Raises NotFound for a topic that does not exist, and what is wrong when
        no broker answers."""
        queues = served_queues(await self._admin.topic_route(self._topic), self._topic)
        if not queues:
            raise MqError(
                f"no queue of topic {self._topic} can be read",
                hint=f"see `mqctl topic route {self._topic}`: it needs perm r and a running broker",
            )
        offsets = await asyncio.gather(*(self._offset_if_known(*served) for served in queues))
        if all(queue_offset is None for queue_offset in offsets):
            raise next(iter(self.silent.values()))
        for name, error in self.silent.items():
            self._troubled.add(name)
            self._on_trouble(error)
        self._begins = [(*served, queue_offset) for served, queue_offset in zip(queues, offsets, strict=True)]
        return len(self._begins)

    async def messages(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Never ends by itself. Raises ResponseError when a broker refuses to hand out messages."""
        tasks = [asyncio.create_task(self._follow(*begin)) for begin in self._begins]
        try:
            while True:
                arrived = await self._arrived.get()
                if isinstance(arrived, MqError):
                    raise arrived
                yield arrived
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- where to begin -----------------------------------------------------------------------------

    async def _offset_if_known(self, queue: MessageQueue, address: str) -> int | None:
        try:
            return await self._first_offset(queue, address)
        except MqError as error:
            if not error.retriable:
                raise
            self.silent[queue.broker_name] = error
            return None

    async def _first_offset(self, queue: MessageQueue, address: str) -> int:
        where = TopicQueueHeader(topic=self._topic, queue_id=queue.queue_id)
        if self._start is Start.EARLIEST:
            command = Command(RequestCode.GET_MIN_OFFSET, ext=header_fields(where))
        elif self._start is Start.LATEST:
            command = Command(RequestCode.GET_MAX_OFFSET, ext=header_fields(where))
        else:
            assert isinstance(self._start, int)
            search = SearchOffsetHeader(topic=self._topic, queue_id=queue.queue_id, timestamp=self._start)
            command = Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext=header_fields(search))
        answer = await self._admin.call(address, command)
        return max(0, int(answer.fields().get("offset", 0)))

    # -- one queue ----------------------------------------------------------------------------------

    async def _follow(self, queue: MessageQueue, address: str, queue_offset: int | None) -> None:
        name = queue.broker_name
        while True:
            try:
                if queue_offset is None:
                    queue_offset = await self._first_offset(queue, address)
                    self.silent.pop(name, None)
                queue_offset = await self._pull(queue, address, queue_offset)
                self._troubled.discard(name)
            except MqError as error:
                if not error.retriable:
                    await self._arrived.put(error)
                    return
                if name not in self._troubled:
                    self._troubled.add(name)  # all its queues have the same trouble
                    self._on_trouble(error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _pull(self, queue: MessageQueue, address: str, queue_offset: int) -> int:
        """Hands over what one pull found and returns where to go on."""
        request = self._request(queue, queue_offset)
        answer = await self._admin.request(address, request, timeout=HOLD_MS / 1000 + HOLD_SLACK_S)
        if answer.code not in GO_ON:
            raise ResponseError(answer.code, answer.remark, address)
        if answer.code == ResponseCode.SUCCESS:
            for message in decode_messages(answer.body):
                if self._wanted(message):
                    message.broker_name = queue.broker_name
                    await self._arrived.put(message)
        return int(answer.fields().get("nextBeginOffset", queue_offset))

    def _request(self, queue: MessageQueue, queue_offset: int) -> Command:
        header = PullMessageHeader(
            consumer_group=CONSUMER_GROUP,
            topic=self._topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=MESSAGES_PER_PULL,
            sys_flag=FLAG_SUSPEND | FLAG_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            sub_version=0,
            subscription=self._expression,
            expression_type="TAG",
        )
        return Command(RequestCode.PULL_MESSAGE, ext=header_fields(header))

    def _wanted(self, message: ReceivedMessage) -> bool:
        """Brokers compare the hashes of tags, and look for a time only roughly."""
        if isinstance(self._start, int) and message.store_timestamp < self._start:
            return False
        return MATCH_ALL in self._tags or message.tags in self._tags


def decode_messages(body: bytes) -> list[ReceivedMessage]:
    """The body of an answer that holds messages."""
    try:
        return decode_records(body)
    except RecordError as error:
        raise MqError(f"a pulled message cannot be read: {error}") from None


def served_queues(route: TopicRouteData, topic: str) -> list[tuple[MessageQueue, str]]:
    """All queues that may be read, each with the address to read it at."""
    addresses = {broker.broker_name: readable_address(broker.broker_addrs) for broker in route.broker_datas}
    found = []
    for data in route.queue_datas:
        address = addresses.get(data.broker_name)
        if address is not None and data.perm & PERM_READ:
            queues = range(data.read_queue_nums)
            found += [(MessageQueue(topic, data.broker_name, queue_id), address) for queue_id in queues]
    return found
