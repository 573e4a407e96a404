"""The consumer for programs that want to ask for messages themselves, when they are ready for more.

    async with PullConsumer("billing", "orders", namesrv="127.0.0.1:9876") as consumer:
        while True:
            for message in await consumer.poll():
                ...

Messages are pulled ahead in the background; `poll` hands them out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Final

from mqctl.client.consumer import PULL_BATCH, GroupConsumer
from mqctl.client.held import DEFAULT_LIMITS, HeldQueue, Limits
from mqctl.client.membership import AGAIN_SECONDS, readable_queues
from mqctl.client.offsets import ConsumeFrom, Start
from mqctl.client.rebalance import Strategy, averagely
from mqctl.client.subscriptions import Filter, subscription, subscriptions
from mqctl.errors import ConfigError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.signing import Credentials

POLL_SECONDS: Final = 5.0
MAX_MESSAGES: Final = 32


class PullConsumer(GroupConsumer):
    """Loop only. `start`, `close`; or `async with`.

    With topics, the group shares their queues as push consumers do. Without, `assign` names the queues, and nobody
    else is asked.

    What a `poll` returned counts as consumed when the next one is called, or the `with` block is left without an
    exception; with `auto_commit=False`, when `commit` is called.
    """

    consume_type: ClassVar[str] = "CONSUME_ACTIVELY"
    states_filter: ClassVar[bool] = True

    def __init__(
        self,
        group: str,
        subscribe: Mapping[str, Filter] | str | None = None,
        namesrv: str | Sequence[str] | None = None,
        *,
        auto_commit: bool = True,
        broadcast: bool = False,
        start: Start = ConsumeFrom.LAST,
        limits: Limits = DEFAULT_LIMITS,
        strategy: Strategy = averagely,
        pull_batch: int = PULL_BATCH,
        instance: str | None = None,
        offsets_dir: Path | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """The arguments are those of `PushConsumer`. Raises ConfigError."""
        super().__init__(
            group,
            {} if subscribe is None else subscriptions(subscribe),
            namesrv=namesrv,
            broadcast=broadcast,
            start=start,
            strategy=strategy,
            limits=limits,
            pull_batch=pull_batch,
            instance=instance,
            offsets_dir=offsets_dir,
            credentials=credentials,
        )
        self._shares_queues = subscribe is not None
        self._wanted: set[MessageQueue] = set()  # what `assign` named
        self._assigning = asyncio.Lock()
        self._auto_commit = auto_commit
        self._ready: deque[tuple[HeldQueue, ReceivedMessage]] = deque()
        self._something = asyncio.Event()
        # Up to where the program is done with what it got.
        self._done: dict[HeldQueue, int] = {}

    async def start(self) -> None:
        await super().start()
        if not self._shares_queues:
            self._tasks.append(self._engine.every(AGAIN_SECONDS, self._take_wanted))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._auto_commit:
            self._all_done()
        await self.close()

    # -- messages ---------------------------------------------------------------------------------------

    async def poll(self, timeout: float = POLL_SECONDS, max_messages: int = MAX_MESSAGES) -> list[ReceivedMessage]:
        """The next messages; none when there are none for so long. Messages of one queue come in order."""
        if self._auto_commit:
            self._all_done()
        found = self._take_ready(max_messages)
        if found:
            return found
        try:
            async with asyncio.timeout(timeout):
                while not found:
                    self._something.clear()
                    await self._something.wait()
                    found = self._take_ready(max_messages)
        except TimeoutError:
            return []
        return found

    async def commit(self, positions: Mapping[MessageQueue, int] | None = None) -> None:
        """All that was polled so far is consumed, or in these queues what lies before these offsets. Returns when the
        brokers know it, or it could not be saved now: then it is again every 5 s. Raises NotFound for a queue that is
        not ours."""
        self._set_done(positions)
        await super().commit()

    def commit_async(self, positions: Mapping[MessageQueue, int] | None = None) -> asyncio.Task[None]:
        """As `commit`, but returns at once; the task may be awaited."""
        self._set_done(positions)
        return self._engine.spawn(super().commit())

    def _take_ready(self, max_messages: int) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        while self._ready and len(found) < max_messages:
            held, message = self._ready.popleft()
            if not held.dropped:
                held.finish((message,))
                found.append(message)
        return found

    def _all_done(self) -> None:
        self._done = {held: held.position for held in self._held.values()}

    def _set_done(self, positions: Mapping[MessageQueue, int] | None) -> None:
        if positions is None:
            self._all_done()
        else:
            self._done |= {self._known(queue): offset for queue, offset in positions.items()}

    # -- queues -----------------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All that can be read. Raises NotFound."""
        return sorted(readable_queues(await self._engine.routes.find(topic), topic))

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """From now on exactly these; one whose broker is away is taken once that is back. Raises ConfigError when
        topics are subscribed to, NotFound for a topic that does not exist."""
        if self._shares_queues:
            raise ConfigError("a consumer with topics shares their queues", hint="leave the topics out to use assign")
        wanted = set(queues)
        topics = {queue.topic for queue in wanted}
        for topic in topics:
            await self._engine.routes.find(topic)
            self._subscriptions.setdefault(topic, subscription(topic))
        self._wanted = wanted
        await self._take_wanted()

    async def _take_wanted(self) -> None:
        async with self._assigning:
            for topic in {queue.topic for queue in self._wanted | self._held.keys()}:
                await self._assign(topic, {queue for queue in self._wanted if queue.topic == topic})

    def pause(self, *queues: MessageQueue) -> None:
        """Nothing more is pulled from these; what is there already is still handed out."""
        for queue in queues:
            held = self._known(queue)
            held.paused = True
            self._pulling[queue].cancel()  # the broker may be holding a pull
            self._pull_from(held)

    def resume(self, *queues: MessageQueue) -> None:
        for queue in queues:
            self._known(queue).resume()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next poll goes on at this offset. The group's position stays until something was consumed there. Raises
        NotFound for a queue that is not ours."""
        held = self._known(queue)
        # In one step: a rebalance in between would begin where the group is.
        self._held[queue] = HeldQueue(queue, offset, self._limits, paused=held.paused)
        held.drop()
        self._pulling[queue].cancel()
        self._pull_from(self._held[queue])
        await self._save([held])

    async def reset(self, queue: MessageQueue, offset: int) -> None:
        await super().reset(queue, offset)
        await self._offsets.save({queue: offset})

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self._reader.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self._reader.max_offset(queue))

    async def seek_to_time(self, queue: MessageQueue, moment: datetime) -> None:
        """To the message stored nearest to that moment: brokers look no closer, so it may be the one before."""
        await self.seek(queue, await self._reader.search_offset(queue, int(moment.timestamp() * 1000)))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's position; None when it has none."""
        return await self._offsets.load(queue)

    # -- from the background ----------------------------------------------------------------------------

    def _arrived(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        self._ready.extend((held, message) for message in messages)
        self._something.set()

    def _position(self, held: HeldQueue) -> int | None:
        return self._done.get(held)
