"""Creating, changing and deleting consumer groups: read what is there, merge, write, read back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import (
    NEW_GROUP,
    GroupConfig,
    KnownGroups,
    delete_group,
    group_config,
    known_groups,
    put_group,
)
from mqctl.client.admin.progress import progress_of
from mqctl.client.admin.topics import delete_topic
from mqctl.errors import MqError
from mqctl.names import DLQ_PREFIX, RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened at one broker. `after` is what the broker says, not what it was asked for."""

    broker_name: str
    address: str
    before: GroupConfig | None
    after: GroupConfig | None
    error: MqError | None = None


async def update_group(
    admin: Admin, group: str, wish: Mapping[str, Any], brokers: Mapping[str, str], *, dry_run: bool
) -> list[Outcome]:
    """`brokers`: addresses by name."""

    async def update(name: str, address: str) -> Outcome:
        before: GroupConfig | None = None
        try:
            before = await group_config(admin, address, group)
            after: GroupConfig | None = {**(before or NEW_GROUP), **wish, "groupName": group}
            if not dry_run and after is not None:
                await put_group(admin, address, after)
                after = await group_config(admin, address, group)
        except MqError as error:
            return Outcome(name, address, before, None, error)
        return Outcome(name, address, before, after)

    return await asyncio.gather(*(update(*broker) for broker in brokers.items()))


# -- deleting -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """A group and what hangs on it."""

    group: str
    brokers: dict[str, str]
    clients: int
    behind: int


async def find_reach(admin: Admin, group: str, asked: Mapping[str, str]) -> Reach:
    """On those of the brokers that have the group. Raises NotFound."""
    brokers = (await known_groups(admin, asked)).find(group)
    [progress] = await progress_of(admin, KnownGroups({group: brokers}, {}), [group])
    clients = len(progress.connection.connection_set) if progress.connection is not None else 0
    return Reach(group, brokers, clients, progress.behind)


async def delete_everywhere(
    admin: Admin, found: Reach, *, offsets: bool, topics: bool, dry_run: bool
) -> tuple[list[Outcome], dict[str, MqError]]:
    """What happened at each broker, and by topic and address why a topic of the group is still there."""

    async def delete(name: str, address: str) -> Outcome:
        before: GroupConfig | None = None
        try:
            before = await group_config(admin, address, found.group)
            if dry_run:
                return Outcome(name, address, before, None)
            await delete_group(admin, address, found.group, offsets=offsets)
            return Outcome(name, address, before, await group_config(admin, address, found.group))
        except MqError as error:
            return Outcome(name, address, before, None, error)

    outcomes = await asyncio.gather(*(delete(*broker) for broker in found.brokers.items()))
    left: dict[str, MqError] = {}
    done = [outcome.address for outcome in outcomes if outcome.error is None]
    if topics and done and not dry_run:
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            left |= await _delete_topic(admin, prefix + found.group, done)
    return outcomes, left


async def _delete_topic(admin: Admin, topic: str, brokers: list[str]) -> dict[str, MqError]:
    try:
        failed = await delete_topic(admin, topic, brokers)
    except MqError as error:
        return {topic: error}
    return {f"{topic} at {address}": error for address, error in failed.items()}
