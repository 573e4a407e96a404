"""Topics over all brokers at once: where they are, who consumes them, how much goes in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import ask_all, ask_each, brokers_of
from mqctl.client.admin.progress import consume_stats
from mqctl.errors import MqError, ResponseError
from mqctl.remoting.bodies import TopicConfigTable
from mqctl.remoting.bodies_admin import GroupList, StatsData
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command

_NO_FIGURES: Final = StatsData()


@dataclass(frozen=True, slots=True)
class Places:
    """Where topics are, as the brokers say: one question to each, instead of one for each topic's route."""

    brokers: dict[str, str]  # address by name
    cluster_of: dict[str, str]
    topics: dict[str, set[str]]  # by broker name
    failed: dict[str, MqError]

    def of(self, topic: str) -> dict[str, str]:
        """Addresses by name of the brokers that have it."""
        return {name: self.brokers[name] for name, topics in self.topics.items() if topic in topics}

    def clusters(self, topic: str) -> list[str]:
        return sorted({self.cluster_of[name] for name in self.of(topic)})


async def topic_places(admin: Admin, cluster: str | None) -> Places:
    info = await admin.cluster_info()
    brokers = brokers_of(info, cluster)

    async def topics(address: str) -> set[str]:
        answer = await admin.call(address, Command(RequestCode.GET_ALL_TOPIC_CONFIG))
        return set(admin.decode(TopicConfigTable, answer).topic_config_table)

    answers = await ask_all(brokers, topics)
    cluster_of = {name: of for of, names in info.cluster_addr_table.items() for name in names}
    return Places(brokers, cluster_of, answers.given, answers.failed)


async def topic_groups(admin: Admin, address: str, topic: str) -> list[str]:
    """The groups that consume it at one broker, running or not."""
    command = Command(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ext={"topic": topic})
    return admin.decode(GroupList, await admin.call(address, command)).group_list


async def consumers_of(
    admin: Admin, places: Mapping[str, Mapping[str, str]], told: Callable[[int], None] | None = None
) -> dict[str, set[str]]:
    """Groups by topic. A broker that does not answer for one topic is passed over: it is told of as missing already."""

    async def ask(topic: str) -> set[str]:
        found: set[str] = set()
        for address in places[topic].values():
            try:
                found.update(await topic_groups(admin, address, topic))
            except MqError:
                continue
        return found

    answers = await ask_each(places, ask, told)
    return dict(zip(places, answers, strict=True))


# -- how much goes in and out ---------------------------------------------------------------------------


@dataclass(slots=True)
class Traffic:
    """A topic and one group that consumes it, None where nobody does. Messages of the last day, rates of the last
    minute."""

    topic: str
    group: str | None
    behind: int = 0
    in_tps: float = 0.0
    out_tps: float = 0.0
    in_day: int = 0
    out_day: int = 0

    @property
    def active(self) -> bool:
        return bool(self.in_day or self.out_day)


async def traffic_of(admin: Admin, topic: str, brokers: Mapping[str, str]) -> list[Traffic]:
    """One for each group. Raises MqError when a broker does not answer."""
    groups = sorted({group for address in brokers.values() for group in await topic_groups(admin, address, topic)})
    found = [Traffic(topic, group) for group in groups] or [Traffic(topic, None)]
    for address in brokers.values():
        put = await stats_data(admin, address, "TOPIC_PUT_NUMS", topic)
        for traffic in found:
            traffic.in_tps += put.stats_minute.tps
            traffic.in_day += day_sum(put)
            if traffic.group is None:
                continue
            got = await stats_data(admin, address, "GROUP_GET_NUMS", f"{topic}@{traffic.group}")
            traffic.out_tps += got.stats_minute.tps
            traffic.out_day += day_sum(got)
            stats = await consume_stats(admin, address, traffic.group, topic)
            traffic.behind += sum(max(0, at.broker_offset - at.consumer_offset) for at in stats.offset_table.values())
    return found


def day_sum(figures: StatsData) -> int:
    """A broker that runs for less than an hour, or a minute, has summed up nothing longer yet."""
    return figures.stats_day.sum or figures.stats_hour.sum or figures.stats_minute.sum


async def stats_data(admin: Admin, address: str, name: str, key: str) -> StatsData:
    command = Command(RequestCode.VIEW_BROKER_STATS_DATA, ext={"statsName": name, "statsKey": key})
    try:
        return admin.decode(StatsData, await admin.call(address, command))
    except ResponseError:
        return _NO_FIGURES  # nothing was counted yet
