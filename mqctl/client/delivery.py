"""Getting a message into some broker's log: choose a queue, ask, and ask elsewhere when that failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from mqctl.client.admin import AUTO_CREATE_TOPIC
from mqctl.client.engine import Engine
from mqctl.client.faults import FaultTable
from mqctl.client.outgoing import NEW_TOPIC_QUEUES, Encoder, Outgoing
from mqctl.client.queues import QueueChooser, writable_queues
from mqctl.client.results import STORED, SendResult, refusal
from mqctl.errors import ConnectionFailed, MqError, NoBroker, NotFound, RequestTimeout
from mqctl.remoting.bodies import MessageQueue, TopicRouteData
from mqctl.remoting.command import Command, HeaderError

# Before the same broker is asked again: it may be in the middle of a restart.
RETRY_PAUSE_S: Final = 0.1

# Gets the message, its result, the broker's address, when it was sent (on the clock of `time.time`), the region.
StoredListener = Callable[[Outgoing, SendResult, str, float, str], None]


class SendAnswer(Struct, rename="camel", gc=False):
    msg_id: str
    queue_id: int
    queue_offset: int
    region: str = field(name="MSG_REGION", default="")
    trace_on: bool = field(name="TRACE_ON", default=True)


class Delivery:
    """Loop only. All methods raise ConnectionFailed, RequestTimeout, NoBroker or RetriableResponse when every
    attempt failed, ResponseError for a refusal that no other broker would reconsider, NotFound for a topic that
    does not exist and is not created on first use."""

    def __init__(self, engine: Engine, encoder: Encoder, *, retries: int, faults: FaultTable | None) -> None:
        """`faults`: keeps slow brokers out of use; None uses all in turn."""
        self._engine = engine
        self._encoder = encoder
        self._retries = retries
        self._faults = faults
        self._choosers: dict[str, QueueChooser] = {}
        self.on_stored: StoredListener | None = None
        engine.routes.on_change.append(self._route_changed)

    async def queues(self, topic: str, timeout: float) -> list[MessageQueue]:
        """Where messages of the topic may go."""
        return list((await self._chooser(topic, timeout)).queues)

    async def deliver(self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None = None) -> SendResult:
        """Sent to `queue` if given, else to that of its order key, else to the next one. The time-out holds for all
        attempts together."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        chooser = self._choosers.get(outgoing.topic) or await self._chooser(outgoing.topic, timeout)
        failed: str | None = None
        failure: MqError | None = None
        for _ in range(self._retries + 1):
            target = queue or self._choose(chooser, outgoing, failed)
            if target.broker_name == failed:
                await asyncio.sleep(min(RETRY_PAUSE_S, max(0.0, deadline - loop.time())))
            left = deadline - loop.time()
            if left <= 0:
                break
            try:
                return await self._attempt(outgoing, target, left)
            except MqError as error:
                if not error.retriable:
                    raise
                failure = error
            failed = target.broker_name
        raise failure or RequestTimeout(f"no broker could be asked within {timeout:g} s")

    async def deliver_oneway(self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None = None) -> None:
        """Returns when the message is on its way; whether it arrives is not known."""
        chooser = await self._chooser(outgoing.topic, timeout)
        target = queue or self._choose(chooser, outgoing, None)
        await self._engine.oneway(self._address(target), self._encoder.request(outgoing, target), timeout)

    # -- one attempt ------------------------------------------------------------------------------------

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        began = time.time()
        try:
            address = self._address(queue)
            answer = await self._engine.request(address, self._encoder.request(outgoing, queue), timeout)
            status = STORED.get(answer.code)
            if status is None:
                raise refusal(answer.code, answer.remark, address)
        except MqError as error:
            self._note(queue.broker_name, began, failed=True)
            if isinstance(error, (ConnectionFailed, NoBroker)):
                self._engine.spawn(self._look_again(outgoing.topic))
            raise
        self._note(queue.broker_name, began, failed=False)
        fields = _read(answer, address)
        place = (
            queue
            if fields.queue_id == queue.queue_id
            else MessageQueue(queue.topic, queue.broker_name, fields.queue_id)
        )
        result = SendResult(outgoing.msg_id, fields.msg_id, place, fields.queue_offset, status)
        if self.on_stored is not None and fields.trace_on:
            self.on_stored(outgoing, result, address, began, fields.region)
        return result

    def _address(self, queue: MessageQueue) -> str:
        address = self._engine.routes.master(queue.broker_name)
        if address is None:
            raise NoBroker(f"no master of broker {queue.broker_name} is running")
        return address

    def _note(self, broker_name: str, began: float, *, failed: bool) -> None:
        if self._faults is not None:
            self._faults.update(broker_name, (time.time() - began) * 1000, failed=failed)

    async def _look_again(self, topic: str) -> None:
        """The broker may have moved, and 30 s until the next refresh are long."""
        try:
            await self._engine.routes.refresh(topic)
        except MqError:
            return  # the old route stays

    # -- queues -----------------------------------------------------------------------------------------

    def _choose(self, chooser: QueueChooser, outgoing: Outgoing, failed: str | None) -> MessageQueue:
        if outgoing.order_key is not None:
            return chooser.by_key(outgoing.order_key)
        if self._faults is not None:
            return chooser.at_good_broker(self._faults)
        return chooser.in_turn(failed)

    def _route_changed(self, topic: str, route: TopicRouteData) -> None:
        self._choosers.pop(topic, None)

    async def _chooser(self, topic: str, timeout: float) -> QueueChooser:
        chooser = self._choosers.get(topic)
        if chooser is None:
            try:
                async with asyncio.timeout(timeout):
                    queues = await self._find_queues(topic)
            except TimeoutError:
                raise RequestTimeout(f"no name server said within {timeout:g} s where {topic} is") from None
            chooser = self._choosers[topic] = QueueChooser(queues)
        return chooser

    async def _find_queues(self, topic: str) -> list[MessageQueue]:
        try:
            queues = writable_queues(await self._engine.routes.find(topic), topic)
            if not queues:  # what was known may be old
                queues = writable_queues(await self._engine.routes.refresh(topic), topic)
        except NotFound as missing:
            queues = await self._queues_of_new(topic, missing)
        if not queues:
            raise NoBroker(
                f"no queue of topic {topic} can be written to",
                hint=f"see `mqctl topic route {topic}`: it needs perm w and a running master",
            )
        return queues

    async def _queues_of_new(self, topic: str, missing: NotFound) -> list[MessageQueue]:
        """Brokers that create topics on first use have one topic which says with how many queues. The topic's own
        route replaces this guess at the next refresh."""
        try:
            route = await self._engine.routes.find(AUTO_CREATE_TOPIC)
        except NotFound:
            if not (await self._engine.name_servers.cluster_info()).broker_addr_table:
                raise NoBroker("no broker has registered with the name servers") from None
            raise missing from None
        return writable_queues(route, topic, at_most=NEW_TOPIC_QUEUES)


def _read(answer: Command, address: str) -> SendAnswer:
    try:
        return answer.header(SendAnswer)
    except HeaderError as error:
        raise MqError(f"the answer of {address} cannot be read: {error}") from None
