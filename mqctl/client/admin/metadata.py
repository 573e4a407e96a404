"""Topics and groups of a whole cluster, taken out of it and put into another.

The file is JSON. `topicConfigTable` and `subscriptionGroupTable` are what mqadmin's exportMetadata writes, where the
queues of several brokers are added up; `brokers` holds the same two tables for each broker, which is what can be put
back; `orderTopicConfig` is what the name servers know of ordered topics. Systems' own topics and groups are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import GroupConfig, group_configs
from mqctl.client.admin.everywhere import Answers, ask_all
from mqctl.client.admin.topics import ORDER_NAMESPACE
from mqctl.errors import ConfigError
from mqctl.limits import MAX_QUEUES
from mqctl.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group
from mqctl.remoting.bodies import TopicConfig, TopicList
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command


@dataclass(frozen=True, slots=True)
class Tables:
    """What one broker has, by name."""

    topics: dict[str, TopicConfig] = field(default_factory=dict)
    groups: dict[str, GroupConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metadata:
    """By broker name; `order` is by topic, in the name servers' words."""

    brokers: dict[str, Tables]
    order: dict[str, str]

    def only(self, *, topics: bool, groups: bool) -> Metadata:
        brokers = {
            name: Tables(tables.topics if topics else {}, tables.groups if groups else {})
            for name, tables in self.brokers.items()
        }
        return Metadata(brokers, self.order if topics else {})


async def read_tables(admin: Admin, address: str, *, special: bool) -> Tables:
    """Without the systems' own, and without retry and dead letter topics unless they are wanted."""
    answer = await admin.call(address, Command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
    system = set(admin.decode(TopicList, answer).topic_list)
    apart = ("rmq_sys_",) if special else ("rmq_sys_", RETRY_PREFIX, DLQ_PREFIX)
    topics = await admin.topic_configs(address)
    groups = await group_configs(admin, address)
    return Tables(
        {name: topics[name] for name in sorted(topics.keys() - system) if not name.startswith(apart)},
        {name: groups[name] for name in sorted(groups) if not is_system_group(name)},
    )


async def read_metadata(admin: Admin, brokers: Mapping[str, str], *, special: bool) -> tuple[Metadata, Answers[Tables]]:
    answers = await ask_all(brokers, lambda address: read_tables(admin, address, special=special))
    known = {topic for tables in answers.given.values() for topic in tables.topics}
    order = {topic: text for topic, text in (await admin.kv_list(ORDER_NAMESPACE)).items() if topic in known}
    return Metadata(answers.given, order), answers


# -- as a file ------------------------------------------------------------------------------------------


def to_document(metadata: Metadata, cluster: str | None, now_ms: int) -> dict[str, Any]:
    topics: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for tables in metadata.brokers.values():
        for name, config in tables.topics.items():
            _add(topics, name, msgspec.to_builtins(config), "readQueueNums", "writeQueueNums")
        for name, group in tables.groups.items():
            _add(groups, name, group, "retryQueueNums")
    return {
        "cluster": cluster,
        "exportTime": now_ms,
        "topicConfigTable": topics,
        "subscriptionGroupTable": groups,
        "orderTopicConfig": metadata.order,
        "brokers": {
            name: {
                "topicConfigTable": msgspec.to_builtins(tables.topics),
                "subscriptionGroupTable": tables.groups,
            }
            for name, tables in metadata.brokers.items()
        },
    }


def _add(table: dict[str, dict[str, Any]], name: str, config: Mapping[str, Any], *counts: str) -> None:
    known = table.get(name, {})
    table[name] = {**config, **{count: known.get(count, 0) + config.get(count, 0) for count in counts}}


def from_document(document: Any, source: str) -> Metadata:
    """Of a file of ours, or of mqadmin's, whose broker is then nameless. Raises ConfigError."""
    try:
        found = msgspec.convert(document, _Document)
        brokers = found.brokers or {"": _Tables(found.topic_config_table, found.subscription_group_table)}
        tables = {name: _tables(entry) for name, entry in brokers.items()}
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source} does not hold topics and groups as an export writes them: {error}") from None
    if not any(one.topics or one.groups for one in tables.values()):
        raise ConfigError(f"{source} holds neither topics nor groups")
    for one in tables.values():
        _check_counts(one.topics, source)
    return Metadata(tables, found.order_topic_config)


def _check_counts(topics: Mapping[str, TopicConfig], source: str) -> None:
    for name, topic in topics.items():
        for count in (topic.read_queue_nums, topic.write_queue_nums):
            if not 0 <= count <= MAX_QUEUES:
                raise ConfigError(f"{source}: {name} has {count} queues", hint=f"write a number from 0 to {MAX_QUEUES}")


class _Tables(msgspec.Struct, rename="camel"):
    topic_config_table: dict[str, dict[str, Any]] = {}
    subscription_group_table: dict[str, dict[str, Any]] = {}


class _Document(_Tables, rename="camel"):
    brokers: dict[str, _Tables] = {}
    order_topic_config: dict[str, str] = {}


def _tables(entry: _Tables) -> Tables:
    topics = {
        name: msgspec.convert({**config, "topicName": name}, TopicConfig)
        for name, config in entry.topic_config_table.items()
    }
    groups = {name: {**config, "groupName": name} for name, config in entry.subscription_group_table.items()}
    return Tables(topics, groups)
