"""Delayed messages of both kinds: by level, and by a time of their own."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.delay.delivery import Delivery
from mqctl.server.broker.delay.levels import DelayLevels
from mqctl.server.broker.delay.recall import Recalling
from mqctl.server.broker.delay.recalled import Recalled
from mqctl.server.broker.delay.timers import Timers
from mqctl.server.broker.topics import Topics
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.store import MessageStore, NewMessage


class Delays:
    """Loop only. `load` before anything is stored, then `tasks` run until the broker stops, then `save_last`."""

    def __init__(self, config: BrokerConfig, topics: Topics, store: MessageStore, acks: Acks, clock: Clock) -> None:
        recalled = Recalled()
        delivery = Delivery(store, acks, recalled, clock)
        self.levels = DelayLevels(config, store, delivery, clock)
        self.timers = Timers(config, topics, store, delivery, recalled, clock)
        self._recalling = Recalling(config, topics, store, acks, clock)
        self._delivery = delivery

    def detour(self, message: NewMessage, properties: str) -> NewMessage:
        """Where a message goes that asks for a delay; any other comes back as it is. Raises RequestFailed."""
        return self.timers.detour(self.levels.detour(message, properties), properties)

    def handlers(self) -> HandlerTable:
        return {**self.levels.handlers(), **self._recalling.handlers()}

    def load(self) -> None:
        self.levels.load()
        self.timers.load()

    def on_grown(self, queues: Iterable[ConsumeQueue]) -> None:
        for queue in queues:
            if queue.topic == SCHEDULE_TOPIC:
                self.levels.on_grown(queue.queue_id + 1)
            elif queue.topic == TIMER_TOPIC:
                self.timers.on_grown()

    def tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield from self.levels.tasks()
        yield self._delivery.rounds(self.timers.step)

    def save_soon(self) -> None:
        self.levels.save_soon()
        self.timers.save_soon()

    async def save_last(self) -> None:
        await self.levels.save_last()
        await self.timers.save_last()
