"""Putting topics and groups into a cluster: first what would change, then the changes, then what the brokers say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import NEW_GROUP, group_configs, put_group
from mqctl.client.admin.metadata import Metadata, Tables
from mqctl.client.admin.topics import ORDER_NAMESPACE
from mqctl.errors import ConfigError, MqError
from mqctl.remoting.bodies import TopicConfig

State = dict[str, Any]

# What is not said of a new one.
NEW: Final[dict[str, State]] = {"topic": {}, "group": NEW_GROUP}


@dataclass(slots=True)
class Change:
    """One topic or group at one broker, or the order of a topic at the name servers. A state is plain data, with
    RocketMQ's names; `after` is what was wanted until it was done, and then what the broker says."""

    kind: str  # as the journal names it: topic, group or kv
    name: str
    broker_name: str
    address: str
    before: State | str | None
    after: State | str | None
    error: MqError | None = None
    untold: dict[str, MqError] = field(default_factory=dict)  # the name servers that did not take it while others did


def sources(metadata: Metadata, targets: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """For each target broker the one of the file that it is to be like: the chosen one, that of its own name, or the
    only one. Raises ConfigError."""
    for target, source in chosen.items():
        if target not in targets:
            raise ConfigError(f"there is no broker {target} to import into", hint=f"known: {', '.join(targets)}")
        if source not in metadata.brokers:
            raise ConfigError(f"the file has no broker {source}", hint=f"it has {', '.join(metadata.brokers)}")
    found = {}
    for target in targets:
        if target in chosen:
            found[target] = chosen[target]
        elif target in metadata.brokers:
            found[target] = target
        elif len(metadata.brokers) == 1:
            found[target] = next(iter(metadata.brokers))
        else:
            raise ConfigError(
                f"the file has no broker {target}",
                hint=f"say which one it is to be like with --map {target}=NAME; it has {', '.join(metadata.brokers)}",
            )
    return found


async def plan(
    admin: Admin, metadata: Metadata, brokers: Mapping[str, str], source_of: Mapping[str, str]
) -> list[Change]:
    """Only what differs. What the cluster has and the file has not is left alone."""
    order = await admin.kv_list(ORDER_NAMESPACE) if metadata.order else {}
    wanted = {topic: _renamed(text, source_of) for topic, text in metadata.order.items()}
    changes = [
        Change("kv", topic, "", "", order.get(topic), text)
        for topic, text in wanted.items()
        if text and text != order.get(topic)
    ]

    async def of_broker(name: str, address: str) -> list[Change]:
        tables = metadata.brokers[source_of[name]]
        topics, groups = await _states(admin, address, tables)
        return [
            *_differing("topic", name, address, topics, {one: _topic(two) for one, two in tables.topics.items()}),
            *_differing("group", name, address, groups, tables.groups),
        ]

    for found in await asyncio.gather(*(of_broker(*broker) for broker in brokers.items())):
        changes += found
    return changes


def _renamed(order: str, source_of: Mapping[str, str]) -> str:
    """`broker-a:8;broker-b:4` for the brokers of the target."""
    counts = dict(entry.rpartition(":")[::2] for entry in order.split(";") if ":" in entry)
    return ";".join(f"{target}:{counts[source]}" for target, source in sorted(source_of.items()) if source in counts)


async def _states(
    admin: Admin, address: str, wanted: Tables
) -> tuple[dict[str, State | None], dict[str, State | None]]:
    """How the broker has what is wanted."""
    topics = await admin.topic_configs(address) if wanted.topics else {}
    groups = await group_configs(admin, address) if wanted.groups else {}
    return (
        {name: _topic(topics[name]) if name in topics else None for name in wanted.topics},
        {name: groups.get(name) for name in wanted.groups},
    )


def _topic(config: TopicConfig) -> State:
    state: State = msgspec.to_builtins(config)
    return state


def _differing(
    kind: str, broker: str, address: str, before: Mapping[str, State | None], wanted: Mapping[str, State]
) -> list[Change]:
    """A member that only one of two releases knows is no difference; nor are attributes, which stay as they are."""
    changes = []
    for name, config in wanted.items():
        old = before[name]
        if old is None or any(old[key] != value for key, value in config.items() if key in old and key != "attributes"):
            changes.append(Change(kind, name, broker, address, old, {**(old or NEW[kind]), **config}))
    return changes


async def carry_out(admin: Admin, changes: Sequence[Change], told: Callable[[int], None] | None = None) -> None:
    """Sets `error` of those that failed, and `after` of the others to what the brokers say."""
    # Brokers of 4.9.7 take from the name servers which topics are ordered, so that comes first.
    for done, change in enumerate(sorted(changes, key=lambda change: change.kind != "kv"), 1):
        try:
            await _put(admin, change)
        except MqError as error:
            change.error = error
        if told is not None:
            told(done)
    for address in {change.address for change in changes if change.address}:
        topics, groups = await admin.topic_configs(address), await group_configs(admin, address)
        for change in changes:
            if change.address != address or change.error is not None:
                continue
            if change.kind == "topic":
                change.after = _topic(topics[change.name]) if change.name in topics else None
            else:
                change.after = groups.get(change.name)


async def _put(admin: Admin, change: Change) -> None:
    if isinstance(change.after, str):
        change.untold = await admin.put_kv_config(ORDER_NAMESPACE, change.name, change.after)
    elif change.kind == "topic":
        config = msgspec.convert(change.after, TopicConfig)
        await admin.create_topic(change.address, config, attributes=change.before is None)
    elif change.after is not None:
        await put_group(admin, change.address, change.after)
