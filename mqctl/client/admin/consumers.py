"""What brokers know of consumer groups and of the clients in them: settings, connections, running state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import Answers, ask_all, ask_each, guess
from mqctl.errors import MqError, NotFound, ResponseError
from mqctl.remoting import fastjson
from mqctl.remoting.bodies import ConsumerConnection, ProducerConnection
from mqctl.remoting.bodies_admin import ProducerTable
from mqctl.remoting.bodies_consumer import ConsumerRunningInfo
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command

# A broker asks the client on the way, and waits for it.
CLIENT_SECONDS: Final = 15.0

# What mqadmin gives a new group: unlike one that a broker makes by itself, it may neither start at the oldest message
# nor be broadcast to.
NEW_GROUP: Final[dict[str, Any]] = {
    "consumeEnable": True,
    "consumeFromMinEnable": False,
    "consumeBroadcastEnable": False,
    "retryQueueNums": 1,
    "retryMaxTimes": 16,
    "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1,
    "notifyConsumerIdsChangedEnable": True,
}

# As the broker has it, with members that only a newer release knows: what is written back must hold them as well.
GroupConfig = dict[str, Any]


# -- settings -------------------------------------------------------------------------------------------


async def group_configs(admin: Admin, address: str) -> dict[str, GroupConfig]:
    answer = await admin.call(address, Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    try:
        table = fastjson.loads(answer.body).get("subscriptionGroupTable", {})
        return {str(group): dict(config) for group, config in table.items()}
    except (fastjson.FastjsonError, AttributeError, TypeError, ValueError) as error:
        raise MqError(f"{address} answered with groups that cannot be read: {error}") from None


async def group_config(admin: Admin, address: str, group: str) -> GroupConfig | None:
    return (await group_configs(admin, address)).get(group)


async def put_group(admin: Admin, address: str, config: GroupConfig) -> None:
    """Replaces all settings of the group."""
    command = Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=msgspec.json.encode(config))
    await admin.call(address, command)


async def delete_group(admin: Admin, address: str, group: str, *, offsets: bool) -> None:
    said = "true" if offsets else "false"
    fields = {"groupName": group, "removeOffset": said, "cleanOffset": said}  # 4.9.7's name for it, and 5.x's
    await admin.call(address, Command(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext=fields))


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """By group the addresses of the brokers that have it, by broker name; and the brokers that did not answer."""

    brokers: dict[str, dict[str, str]]
    failed: dict[str, MqError]

    def find(self, group: str) -> dict[str, str]:
        """Raises NotFound, with a guess."""
        if group not in self.brokers:
            raise NotFound(f"there is no consumer group {group}", hint=guess(group, self.brokers))
        return self.brokers[group]


async def known_groups(admin: Admin, brokers: Mapping[str, str]) -> KnownGroups:
    answers = await ask_all(brokers, lambda address: group_configs(admin, address))
    found: dict[str, dict[str, str]] = {}
    for name, configs in answers.given.items():
        for group in configs:
            found.setdefault(group, {})[name] = brokers[name]
    return KnownGroups(dict(sorted(found.items())), answers.failed)


# -- clients --------------------------------------------------------------------------------------------


async def consumer_connection(admin: Admin, address: str, group: str) -> ConsumerConnection | None:
    """None when no consumer of the group is connected to this broker."""
    command = Command(RequestCode.GET_CONSUMER_CONNECTION_LIST, ext={"consumerGroup": group})
    try:
        answer = await admin.call(address, command)
    except ResponseError as error:
        # Apache's broker says it with a code of its own, after a group was deleted with another.
        if error.code in (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
            return None
        raise
    return admin.decode(ConsumerConnection, answer)


async def members(admin: Admin, brokers: Mapping[str, str], group: str) -> ConsumerConnection | None:
    """All clients of the group, whichever broker they are connected to. None when there is none."""
    answers = await ask_all(brokers, lambda address: consumer_connection(admin, address, group))
    found = [connection for connection in answers.given.values() if connection is not None]
    if not found:
        return None
    clients = {client.client_id: client for connection in found for client in connection.connection_set}
    whole = found[0]
    whole.connection_set = sorted(clients.values(), key=lambda client: client.client_id)
    whole.subscription_table = {name: data for part in found for name, data in part.subscription_table.items()}
    return whole


async def running_infos(
    admin: Admin, brokers: Mapping[str, str], group: str, clients: Iterable[str], *, stacks: bool = False
) -> dict[str, ConsumerRunningInfo | MqError]:
    """What each client says of itself, or why it does not."""

    async def ask(client_id: str) -> ConsumerRunningInfo | MqError:
        failure: MqError = NotFound(f"no broker knows the client {client_id}")
        # A client need not be connected to every broker: the first that reaches it tells.
        for address in brokers.values():
            try:
                return await _running_info(admin, address, group, client_id, stacks)
            except MqError as error:
                failure = error
        return failure

    names = list(clients)
    return dict(zip(names, await ask_each(names, ask), strict=True))


async def _running_info(admin: Admin, address: str, group: str, client_id: str, stacks: bool) -> ConsumerRunningInfo:
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "true" if stacks else "false"}
    command = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, ext=fields)
    answer = await admin.call(address, command, max(admin.timeout, CLIENT_SECONDS))
    return admin.decode(ConsumerRunningInfo, answer)


async def producer_connection(admin: Admin, address: str, group: str) -> ProducerConnection | None:
    """None when the broker knows no such producer: Apache's says that as an error without a code of its own."""
    command = Command(RequestCode.GET_PRODUCER_CONNECTION_LIST, ext={"producerGroup": group})
    answer = await admin.request(address, command)
    if answer.code == ResponseCode.SUCCESS:
        return admin.decode(ProducerConnection, answer)
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return None
    raise ResponseError(answer.code, answer.remark, address)


async def producer_table(admin: Admin, brokers: Mapping[str, str]) -> Answers[ProducerTable]:
    async def ask(address: str) -> ProducerTable:
        return admin.decode(ProducerTable, await admin.call(address, Command(RequestCode.GET_ALL_PRODUCER_INFO)))

    return await ask_all(brokers, ask)


# -- versions -------------------------------------------------------------------------------------------

# Java numbers its releases in a row, each with a snapshot before it: 5.0.0 is 413, and from 4.1.0 on no patch
# number was left out.
_RELEASE_5_0_0: Final = 413
_FIRST_REGULAR: Final = 232


def version_text(number: int) -> str:
    """`V4_9_7` for 407."""
    if number < _FIRST_REGULAR:
        return str(number)
    release = 500 + ((number | 1) - _RELEASE_5_0_0) // 2
    snapshot = "" if number % 2 else "_SNAPSHOT"
    return f"V{release // 100}_{release // 10 % 10}_{release % 10}{snapshot}"
