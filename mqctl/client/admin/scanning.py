"""Reading what a topic holds: from one point of all its queues to another, without waiting for more.

No group is involved and no offset is stored. Messages of all queues come in the order they were stored in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import ask_all
from mqctl.client.admin.tailing import (
    CONSUMER_GROUP,
    FLAG_SUBSCRIPTION,
    GO_ON,
    MATCH_ALL,
    MESSAGES_PER_PULL,
    decode_messages,
    served_queues,
)
from mqctl.errors import MqError, NotFound, ResponseError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import PullMessageHeader, SearchOffsetHeader, TopicQueueHeader
from mqctl.remoting.message import ReceivedMessage


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a queue: from `begin` to before `end`."""

    queue: MessageQueue
    address: str
    begin: int
    end: int


async def find_spans(
    admin: Admin,
    topic: str,
    *,
    since: int | None = None,
    start: int = 0,
    broker_name: str | None = None,
    queue_id: int | None = None,
    missing: dict[str, MqError] | None = None,
) -> list[Span]:
    """What the queues hold now, from about `since` and `start` on. Brokers that do not answer go to `missing`; without
    it, or when none does, their error is raised. Raises NotFound for no such topic or queue."""
    readable = served_queues(await admin.topic_route(topic), topic)
    if not readable:
        raise MqError(
            f"no queue of topic {topic} can be read",
            hint=f"see `mqctl topic route {topic}`: it needs perm r and a running broker",
        )
    queues = [
        (queue, address)
        for queue, address in readable
        if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]
    if not queues:
        known = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue, _ in readable)
        raise NotFound(f"the topic {topic} has no such queue", hint=f"those that can be read: {known}")

    async def ask(address: str) -> list[Span]:
        here = [queue for queue, at in queues if at == address]
        return await asyncio.gather(*(_span(admin, queue, address, since, start) for queue in here))

    answers = await ask_all({queue.broker_name: address for queue, address in queues}, ask)
    for name, error in answers.failed.items():
        if missing is None:
            raise error
        missing[name] = error
    return [span for spans in answers.given.values() for span in spans]


async def _span(admin: Admin, queue: MessageQueue, address: str, since: int | None, start: int) -> Span:
    where = header_fields(TopicQueueHeader(topic=queue.topic, queue_id=queue.queue_id))
    if since is None:
        first = Command(RequestCode.GET_MIN_OFFSET, ext=where)
    else:
        # Of several messages of one millisecond Apache's broker may name any, so the one before is asked for.
        search = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=max(0, since - 1))
        first = Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext=header_fields(search))
    last = Command(RequestCode.GET_MAX_OFFSET, ext=where)
    begin, end = await asyncio.gather(_offset(admin, address, first), _offset(admin, address, last))
    return Span(queue, address, max(begin, start), end)


async def _offset(admin: Admin, address: str, command: Command) -> int:
    text = (await admin.call(address, command)).fields().get("offset", "0")
    try:
        return max(0, int(text))
    except ValueError:
        raise MqError(f"{address} answered with an offset that is no number: {text!r}") from None


async def read_spans(
    admin: Admin,
    spans: Sequence[Span],
    *,
    tags: str = MATCH_ALL,
    since: int | None = None,
    until: int | None = None,
    missing: dict[str, MqError] | None = None,
) -> AsyncIterator[ReceivedMessage]:
    """The messages stored at `since` or later and before `until`, in ms, the oldest first. `missing`: as above."""
    wanted = frozenset(tag.strip() for tag in tags.split("||"))
    readers = started = [_Reader(admin, span, tags.strip() or MATCH_ALL) for span in spans]
    brokers = {span.queue.broker_name for span in spans}

    async def head_of(reader: _Reader) -> ReceivedMessage | None:
        try:
            return await reader.head()
        except MqError as error:
            if missing is None or brokers <= missing.keys() | {reader.broker_name}:
                raise
            missing[reader.broker_name] = error
            return None

    try:
        while readers:
            heads = await asyncio.gather(*map(head_of, readers))
            readers = [
                reader
                for reader, head in zip(readers, heads, strict=True)
                if head is not None and (until is None or head.store_timestamp < until)
            ]
            if not readers:
                return
            # While all have something to compare, nobody needs to be waited for.
            while all(reader.ready for reader in readers):
                message = min(readers, key=_Reader.order).take()
                if until is not None and message.store_timestamp >= until:
                    continue
                if since is not None and message.store_timestamp < since:
                    continue
                # Brokers compare the hashes of tags only.
                if MATCH_ALL in wanted or message.tags in wanted:
                    yield message
    finally:
        for reader in started:
            reader.stop()


class _Reader:
    """One queue; the next pull is under way while the messages of the last are looked at."""

    def __init__(self, admin: Admin, span: Span, expression: str) -> None:
        self._admin = admin
        self._span = span
        self._expression = expression
        self._next = span.begin
        self._found: deque[ReceivedMessage] = deque()
        self._pulling: asyncio.Task[list[ReceivedMessage]] | None = None

    @property
    def broker_name(self) -> str:
        return self._span.queue.broker_name

    @property
    def ready(self) -> bool:
        return bool(self._found)

    def order(self) -> tuple[int, MessageQueue]:
        return self._found[0].store_timestamp, self._span.queue

    def take(self) -> ReceivedMessage:
        return self._found.popleft()

    async def head(self) -> ReceivedMessage | None:
        """The next message; None at the end."""
        while not self._found and (self._pulling is not None or self._next < self._span.end):
            pulling, self._pulling = self._pulling or self._pull_later(), None
            self._found.extend(await pulling)
            if self._next < self._span.end:
                self._pulling = self._pull_later()
        return self._found[0] if self._found else None

    def stop(self) -> None:
        if self._pulling is not None:
            self._pulling.cancel()

    def _pull_later(self) -> asyncio.Task[list[ReceivedMessage]]:
        task = asyncio.get_running_loop().create_task(self._pull())
        task.add_done_callback(_seen)
        return task

    async def _pull(self) -> list[ReceivedMessage]:
        span = self._span
        answer = await self._admin.request(span.address, pull_request(span.queue, self._next, self._expression))
        if answer.code not in GO_ON:
            raise ResponseError(answer.code, answer.remark, span.address)
        begin = self._next
        self._next = int(answer.fields().get("nextBeginOffset", span.end))
        if answer.code == ResponseCode.PULL_NOT_FOUND or self._next <= begin:
            self._next = span.end  # nothing there any more
        if answer.code != ResponseCode.SUCCESS:
            return []
        messages = [message for message in decode_messages(answer.body) if message.queue_offset < span.end]
        for message in messages:
            message.broker_name = span.queue.broker_name
        return messages


def pull_request(
    queue: MessageQueue, queue_offset: int, expression: str = MATCH_ALL, count: int = MESSAGES_PER_PULL
) -> Command:
    """A pull that is answered at once, whatever there is."""
    header = PullMessageHeader(
        consumer_group=CONSUMER_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=queue_offset,
        max_msg_nums=count,
        sys_flag=FLAG_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription=expression,
        expression_type="TAG",
    )
    return Command(RequestCode.PULL_MESSAGE, ext=header_fields(header))


def _seen(task: asyncio.Task[list[ReceivedMessage]]) -> None:
    """A pull that nobody came to ask for any more may fail unheard."""
    if not task.cancelled():
        task.exception()
