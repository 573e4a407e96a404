"""Consumer groups' settings, kept in config/subscriptionGroup.json."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from mqctl.errors import RequestFailed
from mqctl.names import BUILT_IN_GROUPS, SYSTEM_GROUP_PREFIX
from mqctl.remoting import bodies
from mqctl.remoting.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupTable
from mqctl.remoting.codes import ResponseCode
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.configfile import ConfigFile
from mqctl.server.broker.topics import LEGAL_NAME

# What Java's clients allow. A group with a longer name than fits behind %RETRY% has no retry topic.
MAX_GROUP_NAME: Final = 255


class Groups:
    """Loop only."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self.data_version = DataVersion(counter=0, timestamp=int(clock() * 1000))
        self._file = ConfigFile(config.root / "config" / "subscriptionGroup.json", self._encode)

    def load(self) -> None:
        stored = self._file.load(lambda data: bodies.decode(SubscriptionGroupTable, data))
        if stored is not None:
            self._table.update(stored.subscription_group_table)
            self.data_version = stored.data_version
        for name in BUILT_IN_GROUPS:
            self._table.setdefault(name, SubscriptionGroupConfig(group_name=name))

    async def save_last(self) -> None:
        await self._file.save_last()

    def _encode(self) -> bytes:
        return msgspec.json.format(bodies.encode(self.snapshot()), indent=2)

    def snapshot(self) -> SubscriptionGroupTable:
        return SubscriptionGroupTable(data_version=self.data_version, subscription_group_table=self._table)

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self._table.get(group)

    def find(self, group: str) -> SubscriptionGroupConfig:
        """The group's settings, made with defaults on first use. Raises RequestFailed if that is not
        allowed."""
        found = self._table.get(group)
        if found is not None:
            return found
        if not (self._config.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)):
            raise RequestFailed(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"the consumer group {group!r} does not exist and this broker does not create groups by itself",
            )
        check_group_name(group)
        found = SubscriptionGroupConfig(group_name=group)
        self.put(found)
        return found

    def put(self, *groups: SubscriptionGroupConfig) -> asyncio.Future[None]:
        self._table.update({group.group_name: group for group in groups})
        return self._changed()

    def stop(self, group: str) -> None:
        """No consumer of the group gets messages until somebody sets consumeEnable again."""
        found = self._table.get(group)
        if found is not None and found.consume_enable:
            self.put(msgspec.structs.replace(found, consume_enable=False))

    def delete(self, group: str) -> asyncio.Future[None]:
        self._table.pop(group, None)
        return self._changed()

    def _changed(self) -> asyncio.Future[None]:
        self.data_version = self.data_version.next(int(self._clock() * 1000))
        return self._file.save_soon()


def check_group_name(group: str) -> None:
    """Raises RequestFailed. Java's broker takes any name, and a group's retry topic names a folder."""
    if not 0 < len(group) <= MAX_GROUP_NAME or not LEGAL_NAME.match(group):
        raise RequestFailed(
            ResponseCode.SYSTEM_ERROR,
            f"a group name has 1 to {MAX_GROUP_NAME} letters, digits, _ - % |, unlike {group[:MAX_GROUP_NAME]!r}",
        )
