"""The requests that change, delete and list the settings of consumer groups."""

from __future__ import annotations

import asyncio

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import SubscriptionGroupConfig
from mqctl.remoting.bodies_admin import GroupConfigList
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_admin import DeleteGroupHeader, GroupHeader
from mqctl.server.broker.groups import Groups, check_group_name
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.topics import MAX_QUEUES
from mqctl.server.loop import HandlerTable


class GroupAdmin:
    def __init__(self, groups: Groups, offsets: ConsumerOffsets) -> None:
        self._groups = groups
        self._offsets = offsets

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (None, self.on_update),
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (None, self.on_update_list),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (None, self.on_all),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: (GroupHeader, self.on_get),
            RequestCode.DELETE_SUBSCRIPTIONGROUP: (DeleteGroupHeader, self.on_delete),
        }

    async def on_update(self, connection: Connection, request: Command, _: None) -> Command:
        """Replaces all settings of the group; answers when they are on disk."""
        await self._put([bodies.decode(SubscriptionGroupConfig, request.body)])
        return request.reply()

    async def on_update_list(self, connection: Connection, request: Command, _: None) -> Command:
        """5.x tools bring many at once: all of them or none."""
        await self._put(bodies.decode(GroupConfigList, request.body).group_config_list)
        return request.reply()

    async def _put(self, groups: list[SubscriptionGroupConfig]) -> None:
        for group in groups:
            check_group_name(group.group_name)
            if group.retry_queue_nums > MAX_QUEUES:
                raise RequestFailed(
                    ResponseCode.SYSTEM_ERROR,
                    f"retryQueueNums of {group.retry_queue_nums} is too many, at most {MAX_QUEUES} are allowed",
                )
        if groups:
            await asyncio.shield(self._groups.put(*groups))

    async def on_delete(self, connection: Connection, request: Command, header: DeleteGroupHeader) -> Command:
        """The settings, and if asked for the offsets too. A group that consumes right now comes back with its next
        heartbeat."""
        await asyncio.shield(self._groups.delete(header.group_name))
        if header.remove_offset or header.clean_offset:
            self._offsets.forget(header.group_name)
            saving = self._offsets.save_soon()
            if saving is not None:
                await asyncio.shield(saving)
        return request.reply()

    def on_get(self, connection: Connection, request: Command, header: GroupHeader) -> Command:
        """5.x tools ask for one group."""
        found = self._groups.get(header.group)
        if found is None:
            raise RequestFailed(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the consumer group {header.group!r} does not exist"
            )
        return request.reply(body=bodies.encode(found))

    def on_all(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=bodies.encode(self._groups.snapshot()))
