"""Creating and changing topics: read what is there, merge, write, read back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import Answers, ask_all, failures
from mqctl.client.clusters import master_of
from mqctl.errors import MqError, NotFound
from mqctl.names import DLQ_PREFIX, RETRY_PREFIX
from mqctl.remoting.bodies import BrokerData, TopicConfig
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.topicbits import PERM_INHERIT, PERM_READ, PERM_WRITE, UNIT, UNIT_SUB

# What RocketMQ's admin tool gives a new topic.
NEW_TOPIC: Final = TopicConfig(read_queue_nums=8, write_queue_nums=8, perm=PERM_READ | PERM_WRITE)

# Where name servers keep which topics are ordered, and over how many queues of which broker.
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True)
class Wish:
    """What to change about a topic; None leaves a value as it is."""

    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    unit: bool | None = None
    unit_sub: bool | None = None

    def apply(self, topic: str, current: TopicConfig | None) -> TopicConfig:
        config = msgspec.structs.replace(current or NEW_TOPIC, topic_name=topic)
        for name in ("read_queue_nums", "write_queue_nums", "perm", "order"):
            if getattr(self, name) is not None:
                setattr(config, name, getattr(self, name))
        for wanted, bit in ((self.unit, UNIT), (self.unit_sub, UNIT_SUB)):
            if wanted is not None:
                config.topic_sys_flag = config.topic_sys_flag | bit if wanted else config.topic_sys_flag & ~bit
        return config


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one topic at one broker. `after` is what the broker says, not what it was asked for."""

    topic: str
    broker_name: str
    address: str
    before: TopicConfig | None
    after: TopicConfig | None
    error: MqError | None = None


async def update_topic(
    admin: Admin, topic: str, wish: Wish, broker_name: str, address: str, *, dry_run: bool
) -> Outcome:
    """Never raises MqError: other brokers' outcomes are worth as much as this one's."""
    before = after = None
    try:
        before = await admin.topic_config(address, topic)
        after = wish.apply(topic, before)
        if not dry_run:
            await admin.create_topic(address, after)
            after = await admin.topic_config(address, topic)
    except MqError as error:
        return Outcome(topic, broker_name, address, before, None, error)
    return Outcome(topic, broker_name, address, before, after)


async def change_topics(
    admin: Admin,
    wishes: Mapping[str, Wish],
    brokers: Mapping[str, str],
    *,
    dry_run: bool,
    told: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """Many topics on each broker, which is asked once for all of them before and once after. Never raises MqError; what
    a broker did not answer at all has no topic."""
    done = 0

    async def create(address: str, configs: Mapping[str, TopicConfig]) -> dict[str, MqError]:
        nonlocal done
        failed = {}
        for topic, config in configs.items():
            try:
                await admin.create_topic(address, config)
            except MqError as error:
                failed[topic] = error
            done += 1
            if told is not None:
                told(done)
        return failed

    async def change(name: str, address: str) -> list[Outcome]:
        outcomes: list[Outcome] = []
        failed: dict[str, MqError] = {}
        try:
            before = await admin.topic_configs(address)
        except MqError as error:
            return [Outcome("", name, address, None, None, error)]
        after = {topic: wish.apply(topic, before.get(topic)) for topic, wish in wishes.items()}
        if not dry_run:
            failed = await create(address, {one: two for one, two in after.items() if two != before.get(one)})
            try:
                after.update(await admin.topic_configs(address))
            except MqError as error:  # what it took is known all the same
                outcomes.append(Outcome("", name, address, None, None, error))
        for topic in wishes:
            now = None if topic in failed else after[topic]
            outcomes.append(Outcome(topic, name, address, before.get(topic), now, failed.get(topic)))
        return outcomes

    rounds = await asyncio.gather(*(change(*broker) for broker in brokers.items()))
    return [outcome for outcomes in rounds for outcome in outcomes]


# -- order ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ordered:
    """What name servers keep of a topic's order, and by address why some of them were not told."""

    topic: str
    before: str | None
    after: str | None
    failed: dict[str, MqError]


async def set_order(admin: Admin, topic: str, queue_nums: Mapping[str, int | None] | None) -> Ordered:
    """Makes the topic ordered over so many queues of each broker; over none of those with None, or with nothing but
    None not ordered any more. Raises MqError when no name server was told.

    A broker takes the flag from the name servers, not from the request that creates the topic, so this comes
    first and the request makes the broker look. Brokers that are not named keep their entry.
    """
    before = await admin.kv_config(ORDER_NAMESPACE, topic)
    after = None if queue_nums is None else _changed_order(before or "", queue_nums)
    return Ordered(topic, before, after, await admin.put_kv_config(ORDER_NAMESPACE, topic, after))


def order_of(configs: Mapping[str, TopicConfig], *, everywhere: bool) -> dict[str, int | None] | None:
    """For set_order, so that the topic becomes as these brokers shall have it. `everywhere`: no others have it."""
    if everywhere and not any(config.order for config in configs.values()):
        return None
    return {name: config.write_queue_nums if config.order else None for name, config in configs.items()}


def _changed_order(text: str, queue_nums: Mapping[str, int | None]) -> str | None:
    """None when no broker is left in it."""
    entries = {**dict(_order_entries(text)), **queue_nums}
    return ";".join(f"{name}:{count}" for name, count in sorted(entries.items()) if count is not None) or None


def _order_entries(text: str) -> list[tuple[str, str]]:
    """`broker-a:8;broker-b:4` to pairs. A broker's name may hold a colon, a count may not."""
    pairs = [entry.rpartition(":") for entry in text.split(";")]
    return [(name, count) for name, _, count in pairs if name]


# -- permissions as text --------------------------------------------------------------------------------

_LETTERS: Final = {"r": PERM_READ, "w": PERM_WRITE, "x": PERM_INHERIT}


def parse_perm(text: str) -> int:
    """`rw`, `r`, `w`, or RocketMQ's number. Raises ValueError."""
    if text.isdecimal() and int(text) < 8:
        return int(text)
    if not text or len(set(text)) != len(text) or not set(text) <= _LETTERS.keys():
        raise ValueError(f"{text!r} is not a permission: write r, w or rw, or 4, 2 or 6")
    return sum(_LETTERS[letter] for letter in text)


def perm_text(perm: int) -> str:
    """`x` is the right to serve as a pattern for new topics, as TBW102 does."""
    return "".join(letter for letter, bit in _LETTERS.items() if perm & bit) or "-"


# -- names that mean something --------------------------------------------------------------------------

_SYSTEM_PREFIX: Final = "rmq_sys_"


async def user_topics(admin: Admin, topics: list[str]) -> list[str]:
    """Those that people created: without the servers' own, and without retry and dead letter topics."""
    system = await admin.system_topics()
    made_by_servers = (RETRY_PREFIX, DLQ_PREFIX, _SYSTEM_PREFIX)
    return [topic for topic in topics if topic not in system and not topic.startswith(made_by_servers)]


# -- finding --------------------------------------------------------------------------------------------


def masters_of(brokers: Iterable[BrokerData]) -> Answers[str]:
    """Master addresses by broker name; a broker whose master is away can be asked, but not changed."""
    found = {broker.broker_name: master_of(broker.broker_addrs) for broker in brokers}
    return Answers(
        {name: address for name, address in sorted(found.items()) if address is not None},
        {name: NotFound(f"no master of {name} is running") for name in sorted(found) if found[name] is None},
    )


async def topic_masters(admin: Admin, topic: str, cluster: str | None = None) -> Answers[str]:
    """Those of all brokers that have the topic, or of one cluster. Raises NotFound."""
    route = await admin.topic_route(topic)
    found = masters_of(broker for broker in route.broker_datas if cluster in (None, broker.cluster))
    if not found.given:
        where = f" in cluster {cluster}" if cluster is not None else ""
        raise NotFound(f"no master that has the topic {topic} is running{where}")
    return found


# -- deleting -------------------------------------------------------------------------------------------


async def delete_topic(admin: Admin, topic: str, brokers: Iterable[str]) -> dict[str, MqError]:
    """First where the messages are, then where the route is: otherwise the brokers would register it anew. Returns by
    address why a broker or name server did not do it; raises the first of these failures when no broker did.

    A name server of 4.9.7 forgets the topic of all brokers, so those that keep it are made to tell it again.
    """
    try:
        having = set(masters_of((await admin.topic_route(topic)).broker_datas).given.values())
    except NotFound:
        having = set()
    deleted = await ask_all(
        {address: address for address in brokers},
        lambda address: admin.call(address, Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": topic})),
    )
    remembering = await failures(
        admin.name_server_addresses,
        lambda address: admin.call(address, Command(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext={"topic": topic})),
    )
    silent = await failures(having - deleted.given.keys(), lambda address: _tell_again(admin, topic, address))
    return {**silent, **remembering, **deleted.failed}


async def _tell_again(admin: Admin, topic: str, address: str) -> None:
    config = await admin.topic_config(address, topic)
    if config is not None:
        await admin.create_topic(address, config)
