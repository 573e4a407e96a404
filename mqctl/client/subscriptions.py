"""What a consumer wants of a topic: all, some tags, or what an SQL92 expression over properties matches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqctl.client.naming import check_topic
from mqctl.errors import ConfigError
from mqctl.names import RETRY_PREFIX
from mqctl.remoting.bodies import SubscriptionData
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.javahash import java_hash

EVERYTHING: Final = "*"
SQL92: Final = "SQL92"


@dataclass(frozen=True, slots=True)
class Sql:
    """Only messages whose properties match, as in `Sql("region = 'eu' AND amount > 100")`. The broker decides; it
    needs enablePropertyFilter."""

    expression: str


Filter = str | Sql


def subscriptions(wanted: Mapping[str, Filter] | str) -> dict[str, SubscriptionData]:
    """By topic. A filter is `*`, one tag, tags with `||` between them, or Sql; a topic alone stands for all of it.

    Raises ConfigError for a filter that names nothing.
    """
    by_topic = {wanted: EVERYTHING} if isinstance(wanted, str) else wanted
    if not isinstance(by_topic, Mapping) or not by_topic:
        raise ConfigError("a consumer needs at least one topic", hint='name it, or pass {"topic": "tagA || tagB"}')
    for topic in by_topic:
        check_topic(topic)
    return {topic: subscription(topic, chosen) for topic, chosen in by_topic.items()}


def subscription(topic: str, wanted: Filter = EVERYTHING) -> SubscriptionData:
    # Brokers take a subscription for newer by this number, which Java makes the same way.
    version = time.time_ns() // 1_000_000
    if isinstance(wanted, Sql):
        return SubscriptionData(topic=topic, sub_string=wanted.expression, expression_type=SQL92, sub_version=version)
    if wanted.strip() in ("", EVERYTHING):
        return SubscriptionData(topic=topic, sub_string=EVERYTHING, sub_version=version)
    tags = {tag.strip() for tag in wanted.split("||")} - {""}
    if not tags:
        raise ConfigError(f"the filter {wanted!r} for topic {topic} names no tag", hint="write it as 'tagA || tagB'")
    return SubscriptionData(
        topic=topic,
        sub_string=wanted,
        tags_set=tags,
        code_set={java_hash(tag) for tag in tags},
        sub_version=version,
    )


def wanted_of(messages: list[ReceivedMessage], data: SubscriptionData) -> list[ReceivedMessage]:
    """Brokers compare hashes of tags, and different tags may have the same."""
    return [message for message in messages if message.tags in data.tags_set] if data.tags_set else messages


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def restore_topic(message: ReceivedMessage, group: str) -> None:
    """A message that comes again does so through the group's retry topic; listeners know it by its first one."""
    if message.topic == retry_topic(group):
        message.topic = message.properties.get("RETRY_TOPIC", message.topic)
