"""Getting a message into some broker's log: choose a queue, ask, and ask elsewhere when that failed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from mqctl.client.engine import Engine
from mqctl.client.faults import FaultTable
from mqctl.client.outgoing import NEW_TOPIC_QUEUES, Encoder, Outgoing
from mqctl.client.queues import QueueChooser, writable_queues
from mqctl.client.results import SendResult
from mqctl.client.sending import Sending
from mqctl.errors import MqError, NoBroker, NotFound, RequestTimeout
from mqctl.names import AUTO_CREATE_TOPIC
from mqctl.remoting.bodies import MessageQueue, TopicRouteData

# Gets the message, its result, the broker's address, when it was sent (on the clock of `time.time`), the region.
StoredListener = Callable[[Outgoing, SendResult, str, float, str], None]


class Delivery:
    """Loop only. All methods raise ConnectionFailed, RequestTimeout, NoBroker or RetriableResponse when every
    attempt failed, ResponseError for a refusal that no other broker would reconsider, NotFound for a topic that
    does not exist and is not created on first use."""

    def __init__(self, engine: Engine, encoder: Encoder, *, retries: int, faults: FaultTable | None) -> None:
        """`faults`: keeps slow brokers out of use; None uses all in turn."""
        self.engine = engine
        self.encoder = encoder
        self.retries = retries
        self._faults = faults
        self._choosers: dict[str, QueueChooser] = {}
        self.on_stored: StoredListener | None = None
        engine.routes.on_change.append(self._route_changed)

    async def queues(self, topic: str, timeout: float) -> list[MessageQueue]:
        """Where messages of the topic may go."""
        return list((await self.chooser(topic, timeout)).queues)

    def begin(
        self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None = None
    ) -> asyncio.Future[SendResult]:
        """Sent to `queue` if given, else to that of its order key, else to the next one. The time-out holds for all
        attempts together."""
        sending = Sending(self, outgoing, timeout, queue)
        sending.attempt()
        return sending.done

    async def deliver(self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None = None) -> SendResult:
        return await self.begin(outgoing, timeout, queue)

    async def deliver_oneway(self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None = None) -> None:
        """Returns when the message is on its way; whether it arrives is not known."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        chooser = await self.chooser(outgoing.topic, timeout)
        target = queue or self.choose(chooser, outgoing, None)
        request = self.encoder.request(outgoing, target)
        await self.engine.oneway(self.address(target), request, max(0.0, deadline - loop.time()))

    # -- brokers ----------------------------------------------------------------------------------------

    def address(self, queue: MessageQueue) -> str:
        address = self.engine.routes.master(queue.broker_name)
        if address is None:
            raise NoBroker(f"no master of broker {queue.broker_name} is running")
        return address

    def note(self, broker_name: str, began: float, *, failed: bool) -> None:
        """How an attempt went."""
        if self._faults is not None:
            self._faults.update(broker_name, (time.time() - began) * 1000, failed=failed)

    def look_again(self, topic: str) -> None:
        """The broker may have moved, and 30 s until the next refresh are long."""
        self.engine.spawn(self._refresh(topic))

    async def _refresh(self, topic: str) -> None:
        with contextlib.suppress(MqError):  # the old route stays
            await self.engine.routes.refresh(topic)

    # -- queues -----------------------------------------------------------------------------------------

    def choose(self, chooser: QueueChooser, outgoing: Outgoing, failed_at: str | None) -> MessageQueue:
        if outgoing.order_key is not None:
            return chooser.by_key(outgoing.order_key)
        if self._faults is not None:
            return chooser.at_good_broker(self._faults)
        return chooser.in_turn(failed_at)

    def known_chooser(self, topic: str) -> QueueChooser | None:
        return self._choosers.get(topic)

    async def chooser(self, topic: str, timeout: float) -> QueueChooser:
        chooser = self._choosers.get(topic)
        if chooser is None:
            try:
                async with asyncio.timeout(timeout):
                    queues = await self._find_queues(topic)
            except TimeoutError:
                raise RequestTimeout(f"no name server said within {timeout:g} s where {topic} is") from None
            chooser = self._choosers[topic] = QueueChooser(queues)
        return chooser

    def _route_changed(self, topic: str, route: TopicRouteData) -> None:
        self._choosers.pop(topic, None)

    async def _find_queues(self, topic: str) -> list[MessageQueue]:
        try:
            queues = writable_queues(await self.engine.routes.find(topic), topic)
            if not queues:  # what was known may be old
                queues = writable_queues(await self.engine.routes.refresh(topic), topic)
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
            route = await self.engine.routes.find(AUTO_CREATE_TOPIC)
        except NotFound:
            if not (await self.engine.name_servers.cluster_info()).broker_addr_table:
                raise NoBroker("no broker has registered with the name servers") from None
            raise missing from None
        return writable_queues(route, topic, at_most=NEW_TOPIC_QUEUES)
