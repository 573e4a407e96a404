"""The filters that consumer groups subscribe with, kept in config/consumerFilter.json.

Pulling does without this table: what a group wants is in its last heartbeat. It is kept as Apache's broker keeps it, so
that a store can move between the two: a filter whose consumers are gone is dead, and forgotten after a day.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import field

from mqctl.errors import FilterError
from mqctl.filter.bloom import BloomFilter
from mqctl.filter.sql import SQL92, compile_filter
from mqctl.remoting import bodies
from mqctl.remoting.bodies import Body, Int, Long, SubscriptionData
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.configfile import ConfigFile

log = logging.getLogger(__name__)

# After a start nobody is connected yet; consumers count as gone since their last heartbeat, at the latest.
GONE_BEFORE_START_MS: Final = 30_000


class BloomFilterData(Body):
    bit_num: Int = 0
    bit_pos: list[Int] = field(default_factory=list)


class FilterData(Body, kw_only=True):
    bloom_filter_data: BloomFilterData | None = None
    born_time: Long = 0
    client_version: Long = 0
    consumer_group: str = ""
    dead: bool = False
    dead_time: Long = 0
    expression: str = ""
    expression_type: str = SQL92
    topic: str = ""


class FiltersOfTopic(Body):
    group_filter_data: dict[str, FilterData] = field(default_factory=dict)
    topic: str = ""


class FilterFile(Body):
    filter_data_by_topic: dict[str, FiltersOfTopic] = field(default_factory=dict)


class FilterTable:
    """Loop only."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._bloom = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._table: dict[tuple[str, str], FilterData] = {}  # by topic and group
        self._changed = False
        self._file = ConfigFile(config.root / "config" / "consumerFilter.json", self._encode)

    def load(self) -> None:
        stored = self._file.load(lambda data: bodies.decode(FilterFile, data))
        if stored is None:
            return
        last_seen = self._now() - GONE_BEFORE_START_MS
        for topic, filters in stored.filter_data_by_topic.items():
            for group, data in filters.group_filter_data.items():
                data.dead = bool(data.dead_time)
                self._bury(data, max(last_seen, data.born_time))
                data.bloom_filter_data = self._bits(topic, group)
                self._table[topic, group] = data

    def save_if_changed(self) -> None:
        if self._changed:
            self._file.save_soon()

    async def save_last(self) -> None:
        await self._file.save_last()

    def _encode(self) -> bytes:
        self._forget_old()
        self._changed = False
        topics: dict[str, FiltersOfTopic] = {}
        for (topic, group), data in self._table.items():
            filters = topics.setdefault(topic, FiltersOfTopic(topic=topic))
            filters.group_filter_data[group] = data
        return msgspec.json.format(bodies.encode(FilterFile(filter_data_by_topic=topics)), indent=2)

    def get(self, topic: str, group: str) -> FilterData | None:
        return self._table.get((topic, group))

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """A heartbeat: the group has these subscriptions, and no others any more."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if subscription.expression_type == SQL92 and self._config.enable_property_filter:
                self._register(group, subscription)
        for (topic, each), data in self._table.items():
            if each == group and topic not in topics:
                self._bury(data, self._now())

    def unregister(self, group: str) -> None:
        """The last member has gone."""
        for (_, each), data in self._table.items():
            if each == group:
                self._bury(data, self._now())

    def _register(self, group: str, subscription: SubscriptionData) -> None:
        key = subscription.topic, group
        known = self._table.get(key)
        if known is not None and subscription.sub_version <= known.client_version:
            if subscription.sub_version == known.client_version:
                self._revive(known)
            return
        if known is not None and known.expression == subscription.sub_string:
            known.client_version = subscription.sub_version
            self._revive(known)
            self._changed = True
            return
        try:
            compile_filter(subscription.sub_string)
        except FilterError as error:
            log.warning("consumer group %s, topic %s: %s", group, subscription.topic, error)
            self._table.pop(key, None)
        else:
            self._table[key] = self._new(group, subscription)
        self._changed = True

    def _new(self, group: str, subscription: SubscriptionData) -> FilterData:
        return FilterData(
            bloom_filter_data=self._bits(subscription.topic, group),
            born_time=self._now(),
            client_version=subscription.sub_version,
            consumer_group=group,
            expression=subscription.sub_string,
            expression_type=subscription.expression_type,
            topic=subscription.topic,
        )

    def _bits(self, topic: str, group: str) -> BloomFilterData:
        return BloomFilterData(bit_num=self._bloom.bits, bit_pos=self._bloom.positions(f"{group}#{topic}"))

    def _bury(self, data: FilterData, when_ms: int) -> None:
        if not data.dead:
            data.dead, data.dead_time = True, when_ms
            self._changed = True

    def _revive(self, data: FilterData) -> None:
        if data.dead:
            data.dead, data.dead_time = False, 0
            self._changed = True

    def _forget_old(self) -> None:
        oldest = self._now() - self._config.filter_data_clean_time_span
        self._table = {key: data for key, data in self._table.items() if not data.dead or data.dead_time > oldest}

    def _now(self) -> int:
        return int(self._clock() * 1000)
