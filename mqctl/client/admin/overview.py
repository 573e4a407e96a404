"""One look at a whole cluster: its brokers, what comes in by topic, and who is behind."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import known_groups
from mqctl.client.admin.everywhere import ask_each, brokers_of
from mqctl.client.admin.messages import brokers_of_topic
from mqctl.client.admin.progress import GroupProgress, add_delays, progress_of
from mqctl.client.admin.topics import user_topics
from mqctl.client.clusters import MASTER_ID
from mqctl.errors import MqError
from mqctl.names import is_system_group
from mqctl.remoting.bodies_admin import StatsData
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command

# Brokers tell their figures of one topic at a time, and there may be thousands: each look asks about those that were
# the busiest, and about a share of the others in turn.
BUSIEST: Final = 100
SHARE: Final = 200


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """One address; rates over the last 10 s. Without an answer only `error` says something."""

    cluster: str
    name: str
    broker_id: int
    address: str
    runtime: dict[str, str] = field(default_factory=dict)
    error: MqError | None = None

    @property
    def in_tps(self) -> float:
        return _first_number(self.runtime.get("putTps"))

    @property
    def out_tps(self) -> float:
        # 5.x spells it right.
        return _first_number(self.runtime.get("getTransferedTps") or self.runtime.get("getTransferredTps"))

    @property
    def disk(self) -> float:
        return _first_number(self.runtime.get("commitLogDiskRatio"))


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """Rates over the last minute."""

    topic: str
    in_tps: float
    in_bytes: float


@dataclass(frozen=True, slots=True)
class Overview:
    brokers: list[BrokerFigures]
    topics: list[TopicFigures]
    groups: list[GroupProgress]


async def overview(admin: Admin, now_ms: int, rates: TopicRates) -> Overview:
    """`rates` is for all looks. Raises MqError when no name server answers, or no broker is there."""
    info = await admin.cluster_info()
    readable = brokers_of(info, None)
    addresses = [
        (cluster, name, broker_id, address)
        for cluster, names in sorted(info.cluster_addr_table.items())
        for name in sorted(names)
        if name in info.broker_addr_table
        for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]
    masters = {name: address for _, name, broker_id, address in addresses if broker_id == MASTER_ID}
    brokers, topics, groups = await asyncio.gather(
        ask_each(addresses, lambda each: _broker(admin, *each)),
        rates.look(admin, masters),
        _groups(admin, readable, now_ms),
    )
    return Overview(brokers, topics, groups)


async def _broker(admin: Admin, cluster: str, name: str, broker_id: int, address: str) -> BrokerFigures:
    try:
        return BrokerFigures(cluster, name, broker_id, address, await admin.runtime_info(address))
    except MqError as error:
        return BrokerFigures(cluster, name, broker_id, address, error=error)


class TopicRates:
    """What comes in by topic, as it was when each was asked about the last time."""

    def __init__(self) -> None:
        self._known: dict[str, TopicFigures] = {}
        self._last = ""

    async def look(self, admin: Admin, masters: Mapping[str, str]) -> list[TopicFigures]:
        topics = await user_topics(admin, await admin.topic_list())
        asked = await ask_each(self.choose(topics), lambda topic: _figures(admin, masters, topic))
        return self.learn(topics, asked)

    def choose(self, topics: Sequence[str]) -> list[str]:
        """Of all topics, sorted, those to ask about now."""
        rates = {topic: self._known[topic].in_tps for topic in topics if topic in self._known}
        busy = [topic for topic, rate in rates.items() if rate > 0]
        chosen = sorted(busy, key=rates.__getitem__, reverse=True)[:BUSIEST]
        others = sorted(set(topics) - set(chosen))
        at = bisect_right(others, self._last)
        share = [*others[at:], *others[:at]][:SHARE]
        self._last = share[-1] if share else ""
        return [*chosen, *share]

    def learn(self, topics: Sequence[str], asked: Sequence[TopicFigures]) -> list[TopicFigures]:
        """All that is known of these topics now."""
        known = {**self._known, **{each.topic: each for each in asked}}
        self._known = {topic: known[topic] for topic in topics if topic in known}
        return list(self._known.values())


async def _figures(admin: Admin, masters: Mapping[str, str], topic: str) -> TopicFigures:
    counts = await asyncio.gather(*(_rate(admin, at, "TOPIC_PUT_NUMS", topic) for at in masters.values()))
    if not any(counts):
        return TopicFigures(topic, 0.0, 0.0)
    sizes = await asyncio.gather(*(_rate(admin, at, "TOPIC_PUT_SIZE", topic) for at in masters.values()))
    return TopicFigures(topic, sum(counts), sum(sizes))


async def _rate(admin: Admin, address: str, name: str, key: str) -> float:
    """0 for what this broker has not counted lately, and for a broker that is away: its own line says so."""
    command = Command(RequestCode.VIEW_BROKER_STATS_DATA, ext={"statsName": name, "statsKey": key})
    try:
        return admin.decode(StatsData, await admin.call(address, command)).stats_minute.tps
    except MqError:
        return 0.0


async def _groups(admin: Admin, brokers: Mapping[str, str], now_ms: int) -> list[GroupProgress]:
    known = await known_groups(admin, brokers)
    groups = [group for group in known.brokers if not is_system_group(group)]
    found = await progress_of(admin, known, groups)
    await add_delays(admin, brokers, found, now_ms)
    return found


@dataclass(frozen=True, slots=True)
class QueueFigures:
    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_timestamp: int


async def topic_queues(admin: Admin, topic: str) -> list[QueueFigures]:
    """Where the queues of a topic begin and end."""
    tables = await ask_each((await brokers_of_topic(admin, topic)).values(), lambda at: admin.topic_stats(at, topic))
    return [
        QueueFigures(queue.broker_name, queue.queue_id, at.min_offset, at.max_offset, at.last_update_timestamp)
        for table in tables
        for queue, at in sorted(table.offset_table.items())
    ]


def _first_number(text: str | None) -> float:
    """Rates come as several numbers, over 10, 60 and 600 s."""
    try:
        return float((text or "0").split()[0])
    except (ValueError, IndexError):
        return 0.0
