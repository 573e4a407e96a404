"""Changing the number of a topic's queues without losing a message.

More queues: first readers learn of them, then writers. Fewer: first writers are kept from the queues that go; when
these have been quiet for as long as producers may use an old route, and every group has consumed them to the end, they
are taken from the readers as well. What is done stands in the brokers' own configuration, so another run goes on where
one was stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import ask_each
from mqctl.client.admin.progress import consume_stats
from mqctl.client.admin.topics import Ordered, Outcome, Wish, set_order, update_topic
from mqctl.client.admin.topicstats import topic_groups
from mqctl.errors import MqError, NotFound
from mqctl.remoting.bodies import MessageQueue, TopicConfig
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command

INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Tail:
    """The queues that go: where they end, how many messages they hold, and how many of these each group has still to
    consume."""

    end: int
    held: int
    behind: dict[str, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    tail: Tail
    quiet_seconds: float


@dataclass(slots=True)
class Resize:
    """Of one topic on `brokers`, addresses by name. `changed` hears what each step did at brokers and name servers,
    `waiting` how far the wait is; groups in `ignored` are not waited for, nor with `abandon` messages that no group
    reads."""

    admin: Admin
    topic: str
    brokers: Mapping[str, str]
    queues: int
    quiet_seconds: float
    ignored: Collection[str]
    abandon: bool
    changed: Callable[[list[Outcome], list[Ordered]], None]
    waiting: Callable[[Waiting], None]

    async def run(self) -> None:
        """Raises MqError for a broker that refuses; what was done until then stays, and can be gone on with."""
        configs = await self.configs()
        await self._step(
            configs, lambda config: config.read_queue_nums < self.queues, Wish(read_queue_nums=self.queues)
        )
        orders = []
        if any(config.order for config in configs.values()):
            # Producers of ordered topics count queues as this entry says, whatever the route says.
            ordered = {name: self.queues for name, config in configs.items() if config.order}
            orders = [await set_order(self.admin, self.topic, ordered)]
        await self._step(
            configs, lambda config: config.write_queue_nums != self.queues, Wish(write_queue_nums=self.queues), orders
        )
        shrinking = {name: config for name, config in configs.items() if config.read_queue_nums > self.queues}
        if shrinking:
            await self._wait({name: config.read_queue_nums for name, config in shrinking.items()})
            await self._step(shrinking, lambda _: True, Wish(read_queue_nums=self.queues))

    async def configs(self) -> dict[str, TopicConfig]:
        """By broker name. Raises NotFound when a broker has lost the topic."""
        found = {}
        for name, address in self.brokers.items():
            config = await self.admin.topic_config(address, self.topic)
            if config is None:
                raise NotFound(f"{name} does not have the topic {self.topic}")
            found[name] = config
        return found

    async def _step(
        self,
        configs: Mapping[str, TopicConfig],
        needed: Callable[[TopicConfig], bool],
        wish: Wish,
        orders: list[Ordered] | None = None,
    ) -> None:
        names = [name for name, config in configs.items() if needed(config)]
        if not names and not orders:
            return
        steps: list[Awaitable[Outcome]] = [
            update_topic(self.admin, self.topic, wish, name, self.brokers[name], dry_run=False) for name in names
        ]
        outcomes = await asyncio.gather(*steps)
        self.changed(outcomes, orders or [])
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error

    async def _wait(self, read_queues: Mapping[str, int]) -> None:
        began, last, told = time.monotonic(), -1, None
        while True:
            tail = await self.tail(read_queues)
            if tail.end != last:
                began, last = time.monotonic(), tail.end
            quiet = time.monotonic() - began
            done = quiet >= self.quiet_seconds and not any(tail.behind.values())
            if done or tail != told:
                self.waiting(Waiting(tail, quiet))
                told = tail
            if done:
                return
            await asyncio.sleep(min(INTERVAL_S, max(0.05, self.quiet_seconds - quiet)))

    async def tail(self, read_queues: Mapping[str, int]) -> Tail:
        """Raises MqError when it holds messages that no group reads."""
        queues = [
            MessageQueue(self.topic, name, queue_id)
            for name, count in read_queues.items()
            for queue_id in range(self.queues, count)
        ]
        first = dict(zip(queues, await ask_each(queues, self._offset(RequestCode.GET_MIN_OFFSET)), strict=True))
        end = dict(zip(queues, await ask_each(queues, self._offset(RequestCode.GET_MAX_OFFSET)), strict=True))
        behind: dict[str, int] = {}
        groups: set[str] = set()
        for name in read_queues:
            address = self.brokers[name]
            groups.update(await topic_groups(self.admin, address, self.topic))
            for group in groups - set(self.ignored):
                stats = await consume_stats(self.admin, address, group, self.topic)
                behind[group] = behind.get(group, 0) + sum(
                    max(0, end[queue] - max(at.consumer_offset, first[queue]))
                    for queue, at in stats.offset_table.items()
                    if queue in end
                )
        held = sum(end[queue] - first[queue] for queue in queues)
        if held and not groups and not self.abandon:
            raise MqError(
                f"{held} messages are in queues that go, and no group reads {self.topic}",
                hint="consume them, or give --abandon to leave them behind; nothing is written there any more",
            )
        return Tail(sum(end.values()), held, dict(sorted(behind.items())))

    def _offset(self, code: RequestCode) -> Callable[[MessageQueue], Awaitable[int]]:
        async def ask(queue: MessageQueue) -> int:
            command = Command(code, ext={"topic": queue.topic, "queueId": str(queue.queue_id)})
            answer = await self.admin.call(self.brokers[queue.broker_name], command)
            return int(answer.fields().get("offset", "0"))

        return ask
