"""What push and pull consumers share: a place in a group, queues that come and go, positions, pulling.

Membership ── which queues are ours ──> take / release ──> one task per queue: Reader.pull ──> HeldQueue
Offsets    <── positions of the HeldQueues, every 5 s, when a queue goes, at the end
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Final, Self

from mqctl.client.engine import Engine
from mqctl.client.held import HeldQueue, Limits
from mqctl.client.inspecting import Inspecting
from mqctl.client.membership import Membership
from mqctl.client.metering import SAMPLE_SECONDS, Meter
from mqctl.client.namesrv import default_name_servers
from mqctl.client.naming import check_group
from mqctl.client.offsets import (
    BrokerOffsets,
    ConsumeFrom,
    FileOffsets,
    Offsets,
    Start,
    first_offset,
    local_offsets_path,
)
from mqctl.client.reading import Reader
from mqctl.client.rebalance import Strategy
from mqctl.client.subscriptions import restore_topic, retry_topic
from mqctl.errors import ConfigError, ConnectionFailed, MqError, NotFound
from mqctl.remoting.bodies import ConsumerData, MessageQueue, SubscriptionData
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.signing import Credentials
from mqctl.remoting.unique_id import local_ip

log = logging.getLogger(__name__)

COMMIT_SECONDS: Final = 5.0
# How long the others of a group's queues wait for one that is given up.
RELEASE_SECONDS: Final = 1.0
# How long `close` tries to save positions and to unlock.
GOODBYE_SECONDS: Final = 5.0
# After a pull that failed. Java waits 3 s; the engine leaves a broker alone that cannot be reached.
PAUSE_SECONDS: Final = 1.0
PULL_BATCH: Final = 32


class GroupConsumer(ABC):
    """Loop only. `start`, use, `close`; or `async with`. Subclasses say what happens to messages."""

    consume_type: ClassVar[str]
    states_filter: ClassVar[bool]
    # Of the listener, where there is one.
    orderly = False
    concurrency = 1

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, SubscriptionData],
        *,
        namesrv: str | Sequence[str] | None,
        broadcast: bool,
        start: Start,
        strategy: Strategy,
        limits: Limits,
        pull_batch: int,
        instance: str | None,
        offsets_dir: Path | None,
        credentials: Credentials | None,
    ) -> None:
        check_group(group)
        if not isinstance(start, ConsumeFrom | datetime):
            raise ConfigError(f"start is {start!r}", hint="use ConsumeFrom.FIRST, ConsumeFrom.LAST or a datetime")
        self.group = group
        self._subscriptions = dict(subscriptions)
        self._broadcast = broadcast
        self._start = start
        self._limits = limits
        self._pull_batch = pull_batch
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._pulling: dict[MessageQueue, asyncio.Task[None]] = {}
        # Queues on their way out: while the listener has a message of one, it cannot be taken again.
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        # On their way in: a rebalance and a `seek` may want the same queue at once, and one of them gets it.
        self._taking: set[MessageQueue] = set()
        # By topic, whether they are held or not.
        self._allotted: dict[str, set[MessageQueue]] = {}
        # Where to begin there is not known yet, and the log says so.
        self._unknown: set[MessageQueue] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.started_ms = 0
        self.meter = Meter()
        if broadcast and instance is None:
            instance = "DEFAULT"  # positions lie in a folder of this name and must be found after a restart
        client_id = f"{local_ip()}@{instance}" if instance else None
        self._engine = Engine(namesrv or default_name_servers(), client_id=client_id, credentials=credentials)
        self._reader = Reader(self._engine, group, states_filter=self.states_filter)
        self._offsets: Offsets = (
            FileOffsets(local_offsets_path(offsets_dir, self.client_id, group))
            if broadcast
            else BrokerOffsets(self._reader)
        )
        self._membership = Membership(
            self._engine, group, self._subscriptions, self._assign, strategy=None if broadcast else strategy
        )

    @property
    def client_id(self) -> str:
        return self._engine.client_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group!r}, client_id={self.client_id!r})"

    def assignment(self) -> set[MessageQueue]:
        """The queues this consumer has now."""
        return set(self._held)

    def subscription_data(self) -> list[SubscriptionData]:
        return list(self._subscriptions.values())

    def held_queues(self) -> list[HeldQueue]:
        return list(self._held.values())

    def positions(self) -> dict[MessageQueue, int]:
        """Where the group would go on without us, in the queues where that is for us to say."""
        return self._positions(self._held.values())

    # -- life -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the queues that are ours are being pulled. Raises ConnectionFailed or RequestTimeout when no
        name server answers, ResponseError when a broker refuses an SQL92 filter, MqError when it was started before.
        A topic that does not exist is consumed once it does."""
        self._engine.must_be_new()
        self._inspecting = Inspecting(self, self._engine)
        self.started_ms = time.time_ns() // 1_000_000
        try:
            await self._engine.start()
            await self._find_routes()
            for subscription in self._subscriptions.values():
                await self._reader.check_filter(subscription)
            self._engine.add_consumer(self.group, self._data)
            self._engine.serve(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, None, self._on_members_changed)
            await self._engine.heartbeat()
            await self._find_routes()  # brokers have made the retry topic by now
            await self._membership.rebalance()
        except BaseException:
            await self._engine.close()
            raise
        self._tasks = [
            self._engine.spawn(self._membership.run()),
            self._engine.every(COMMIT_SECONDS, self._save_positions),
            self._engine.every(SAMPLE_SECONDS, self.meter.sample),
        ]

    async def close(self) -> None:
        """What is consumed is committed, what is locked is unlocked, and the group learns at once that we are gone.
        Closing twice, or what was not started, is harmless."""
        if not self.started_ms:
            return
        ending = (*self._tasks, *self._pulling.values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._finish_work()
        await self._save_positions()  # a listener that goes on in its thread keeps its queue from being released
        for held in list(self._held.values()):
            self._give_up(held)
        if self._leaving:
            await asyncio.wait(self._leaving.values(), timeout=GOODBYE_SECONDS)
        await self._say_last()
        await self._engine.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close()

    async def commit(self) -> None:
        """Saves the positions of all queues. What cannot be saved now is saved later."""
        await self._save_positions()

    async def _save_positions(self) -> None:
        await self._save(self._held.values())

    async def _save(self, queues: Iterable[HeldQueue]) -> None:
        await self._offsets.save(self._positions(queues))

    def _positions(self, queues: Iterable[HeldQueue]) -> dict[MessageQueue, int]:
        positions = {held.queue: self._position(held) for held in queues}
        return {queue: offset for queue, offset in positions.items() if offset is not None}

    async def _find_routes(self) -> None:
        for topic in self._subscriptions:
            try:
                await self._engine.routes.find(topic)
            except NotFound:
                continue  # the membership says so, once

    def _data(self) -> ConsumerData:
        """What heartbeats say about us."""
        return ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type,
            message_model="BROADCASTING" if self._broadcast else "CLUSTERING",
            consume_from_where="CONSUME_FROM_TIMESTAMP" if isinstance(self._start, datetime) else self._start.value,
            subscription_data_set=self.subscription_data(),
        )

    def _on_members_changed(self, *_: object) -> None:
        self._membership.wake()

    # -- queues come and go -----------------------------------------------------------------------------

    async def _assign(self, topic: str, queues: set[MessageQueue]) -> bool:
        """Whether all of them are ours now."""
        self._allotted[topic] = queues
        lost = [held for queue, held in self._held.items() if queue.topic == topic and queue not in queues]
        if lost:
            # A listener that does not come to an end keeps its queue; all others go on.
            await asyncio.wait([self._give_up(held) for held in lost], timeout=RELEASE_SECONDS)
        taken = await asyncio.gather(*(self._take(queue) for queue in queues - self._held.keys()))
        if lost or taken:
            log.info("%s: has %d queues of %s", self.group, len(queues), topic)
        return all(taken)

    async def _take(self, queue: MessageQueue, offset: int | None = None) -> bool:
        """Begins at `offset`, or where the group is. Whether the queue is ours now."""
        if queue in self._held:
            return True
        if queue in self._leaving or queue in self._taking:
            return False
        self._taking.add(queue)
        try:
            return await self._begin(queue, offset)
        finally:
            self._taking.discard(queue)

    async def _begin(self, queue: MessageQueue, offset: int | None) -> bool:
        held = HeldQueue(queue, 0, self._limits)
        if not await self._may_take(held):
            return False
        try:
            if offset is None:
                offset = await first_offset(self._reader, self._offsets, queue, self._start)
        except MqError as error:
            if queue not in self._unknown:
                self._unknown.add(queue)
                log.warning("%s: where to begin in %s is not known: %s", self.group, queue, error.message)
            await self._released(held)
            return False
        self._unknown.discard(queue)
        held.next_offset = offset
        self._held[queue] = held
        self._pull_from(held)
        return True

    def _give_up(self, held: HeldQueue, position: int | None = None) -> asyncio.Task[None]:
        """The group's position there becomes `position`, or what is consumed."""
        held.drop()
        del self._held[held.queue]
        self._pulling.pop(held.queue).cancel()
        task = self._leaving[held.queue] = self._engine.spawn(self._release(held, position))
        task.add_done_callback(lambda _: self._leaving.pop(held.queue, None))
        return task

    async def _release(self, held: HeldQueue, position: int | None) -> None:
        await self._settle(held)
        if position is None:
            await self._save([held])
        else:
            await self._offsets.save({held.queue: position})
        await self._released(held)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at this offset, which is the group's position from now on; what was pulled before and is not consumed
        is forgotten. Raises NotFound for a queue that is not ours."""
        # What the listener has still of the queue counts no more, so it is given up and taken anew.
        await self._give_up(self._known(queue), offset)
        is_ours = queue in self._allotted[queue.topic]  # a rebalance may have given it away meanwhile
        if is_ours and not await self._take(queue, offset):
            self._membership.wake()

    async def reset(self, queue: MessageQueue, offset: int) -> None:
        """An operator says where to go on. Raises NotFound for a queue that is not ours."""
        await self.seek(queue, offset)

    def _known(self, queue: MessageQueue) -> HeldQueue:
        held = self._held.get(queue)
        if held is None:
            raise NotFound(f"{queue} is not assigned to this consumer")
        return held

    # -- one queue --------------------------------------------------------------------------------------

    def _pull_from(self, held: HeldQueue) -> None:
        self._pulling[held.queue] = self._engine.spawn(self._pull_forever(held))

    async def _pull_forever(self, held: HeldQueue) -> None:
        troubled = False
        while not held.dropped:
            await held.room()
            try:
                await self._pull(held)
                troubled = False
            except MqError as error:
                if not troubled:
                    troubled = True
                    log.warning("%s: pulling from %s: %s", self.group, held.queue, error.message)
                await self._pause(error)

    async def _pull(self, held: HeldQueue) -> None:
        subscription = self._subscriptions[held.queue.topic]
        held.last_pull_ms = time.time_ns() // 1_000_000
        pulled = await self._reader.pull(
            held.queue,
            held.next_offset,
            subscription,
            count=self._pull_batch,
            # Nothing to save yet is not 0: Apache's broker may read this pull after a commit that was sent later.
            commit=None if self._broadcast else self._position(held) or None,
        )
        if pulled.moved:
            log.warning("%s: %s goes on at %d, not %d", self.group, held.queue, pulled.next_offset, held.next_offset)
        if held.queue.topic == retry_topic(self.group):
            for message in pulled.messages:
                restore_topic(message, self.group)
        held.put(pulled.messages, pulled.next_offset)
        if pulled.messages:
            self.meter.pulled(held.queue.topic, len(pulled.messages), time.time_ns() // 1_000_000 - held.last_pull_ms)
            # On the next turn of the loop: first the broker gets the next pull, so that both sides have work.
            asyncio.get_running_loop().call_soon(self._arrived, held, pulled.messages)

    async def _pause(self, error: MqError) -> None:
        if isinstance(error, ConnectionFailed):
            self._membership.wake()  # its queues may be elsewhere now
        await asyncio.sleep(PAUSE_SECONDS)

    # -- for subclasses ---------------------------------------------------------------------------------

    @abstractmethod
    def _arrived(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        """Messages were put into `held`."""

    def _position(self, held: HeldQueue) -> int | None:
        """Where the group would go on without us; None while that is not for us to say."""
        return held.position

    async def _may_take(self, held: HeldQueue) -> bool:
        """Whether a queue that was given to us can be ours already."""
        return True

    async def _settle(self, held: HeldQueue) -> None:  # noqa: B027 - not every consumer has something to do here
        """Returns when the position of a dropped queue is final."""

    async def _released(self, held: HeldQueue) -> None:  # noqa: B027 - not every consumer has something to do here
        """The position of a dropped queue is saved."""

    async def _finish_work(self) -> None:  # noqa: B027 - not every consumer has something to do here
        """Nothing more arrives: what is begun may be finished."""

    async def _say_last(self) -> None:  # noqa: B027 - not every consumer has something to say
        """Positions are saved and queues released: what can wait no longer."""
