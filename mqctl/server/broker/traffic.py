"""Who sends and who reads how much: per topic, group and queue, for VIEW_BROKER_STATS_DATA.

A send or a pull pays as little as possible for this: it leaves its numbers where they are, and they are gathered
every ten seconds, or when somebody asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies_admin import StatsData
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_admin import StatsHeader
from mqctl.server.broker.series import MINUTE, Series
from mqctl.server.loop import HandlerTable
from mqctl.store.consumequeue import ConsumeQueue

# How many series are sampled before other work gets its turn.
SAMPLE_SLICE: Final = 500

# Their key is the cluster.
BROKER_NAMES: Final = frozenset({"BROKER_PUT_NUMS", "BROKER_GET_NUMS"})

Gets = list[int]


class Traffic:
    """Loop only. Names and keys are those of Apache's BrokerStatsManager; what is not counted here, such as its
    COMMERCIAL_ and FROM_DISK numbers, does not exist."""

    def __init__(self, cluster: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._series: dict[tuple[str, str], Series] = {}
        self._grown: set[ConsumeQueue] = set()
        self._pulled: dict[tuple[str, str, int], Gets] = {}

    def handlers(self) -> HandlerTable:
        return {RequestCode.VIEW_BROKER_STATS_DATA: (StatsHeader, self.on_view)}

    # -- counting -----------------------------------------------------------------------------------

    def grown(self, queues: Iterable[ConsumeQueue]) -> None:
        self._grown.update(queues)

    def pulled(self, topic: str, group: str, queue_id: int, messages: int, size_bytes: int) -> None:
        key = (topic, group, queue_id)
        gets = self._pulled.get(key)
        if gets is None:
            gets = self._pulled[key] = [0, 0, 0]
        gets[0] += 1
        gets[1] += messages
        gets[2] += size_bytes

    def sent_back(self, topic: str, group: str) -> None:
        self._add("SNDBCK_PUT_NUMS", f"{topic}@{group}", 1, 1)

    def forget(self, topic: str) -> None:
        """The topic is deleted. Apache's broker does this with autoDeleteUnusedStats; where topics come and go, their
        figures would otherwise take kilobytes each for a day."""
        self._gather()
        own = [(name, key) for name, key in self._series if key.split("@")[0] == topic and name not in BROKER_NAMES]
        for each in own:
            del self._series[each]

    def _add(self, name: str, key: str, amount: int, times: int) -> None:
        series = self._series.get((name, key))
        if series is None:
            series = self._series[name, key] = Series(self._clock())
        series.add(amount, times)

    def _gather(self) -> None:
        if not self._grown and not self._pulled:
            return
        grown, self._grown = self._grown, set()
        for queue in grown:
            messages, size_bytes = queue.take_arrived()
            for place, key in (("TOPIC", queue.topic), ("QUEUE", f"{queue.topic}@{queue.queue_id}")):
                self._add(f"{place}_PUT_NUMS", key, messages, messages)
                self._add(f"{place}_PUT_SIZE", key, size_bytes, messages)
            self._add("BROKER_PUT_NUMS", self._cluster, messages, messages)
        pulled, self._pulled = self._pulled, {}
        for (topic, group, queue_id), (pulls, messages, size_bytes) in pulled.items():
            for place, key in (("GROUP", f"{topic}@{group}"), ("QUEUE", f"{topic}@{queue_id}@{group}")):
                self._add(f"{place}_GET_NUMS", key, messages, pulls)
                self._add(f"{place}_GET_SIZE", key, size_bytes, pulls)
            self._add("BROKER_GET_NUMS", self._cluster, messages, pulls)

    # -- by the clock -------------------------------------------------------------------------------

    async def sample(self) -> None:
        """What nobody used for a day is forgotten: there may be as many series as there ever were topics and groups."""
        self._gather()
        for number, (key, series) in enumerate(list(self._series.items()), 1):
            series.sample(self._clock())
            if series.is_idle:
                self._series.pop(key, None)  # its topic may have been deleted since
            if number % SAMPLE_SLICE == 0:
                await asyncio.sleep(0)

    # -- asking -------------------------------------------------------------------------------------

    def _find(self, name: str, key: str) -> Series | None:
        self._gather()
        return self._series.get((name, key))

    def view(self, name: str, key: str) -> StatsData | None:
        series = self._find(name, key)
        return None if series is None else series.view(self._clock())

    def consume_tps(self, topic: str, group: str) -> float:
        """Messages a second, over the last minute."""
        return self._tps("GROUP_GET_NUMS", f"{topic}@{group}")

    def put_tps(self, topic: str) -> float:
        return self._tps("TOPIC_PUT_NUMS", topic)

    def _tps(self, name: str, key: str) -> float:
        series = self._find(name, key)
        return 0.0 if series is None else series.over(MINUTE, self._clock()).tps

    def on_view(self, connection: Connection, request: Command, header: StatsHeader) -> Command:
        found = self.view(header.stats_name, header.stats_key)
        if found is None:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        return request.reply(body=bodies.encode(found))
