"""The requests that change and list the settings of consumer groups."""

from __future__ import annotations

import asyncio

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import SubscriptionGroupConfig
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.groups import Groups, check_group_name
from mqctl.server.broker.topics import MAX_QUEUES
from mqctl.server.loop import HandlerTable


class GroupAdmin:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (None, self.on_update),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (None, self.on_all),
        }

    async def on_update(self, connection: Connection, request: Command, _: None) -> Command:
        """Replaces all settings of the group; answers when they are on disk."""
        group = bodies.decode(SubscriptionGroupConfig, request.body)
        check_group_name(group.group_name)
        if group.retry_queue_nums > MAX_QUEUES:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR,
                f"retryQueueNums of {group.retry_queue_nums} is too many, at most {MAX_QUEUES} are allowed",
            )
        await asyncio.shield(self._groups.put(group))
        return request.reply()

    def on_all(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=bodies.encode(self._groups.snapshot()))
