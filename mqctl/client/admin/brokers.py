"""What operators ask of brokers and tell them: settings, figures, cleaning, and whether clients may write to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import guess
from mqctl.client.clusters import MASTER_ID, Instance, instances
from mqctl.errors import MqError, NotFound
from mqctl.properties import format_properties, parse_properties
from mqctl.remoting.bodies import ClusterInfo
from mqctl.remoting.bodies_admin import ConsumeStatsList
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command

# A broker with many groups takes its time; mqadmin waits as long.
CONSUME_STATS_SECONDS: Final = 50.0
# Cleaning walks over all files before it answers.
CLEANING_SECONDS: Final = 60.0


def find_instances(info: ClusterInfo, cluster: str | None, broker: str | None) -> list[Instance]:
    """Those of a broker given by name or address, of a cluster, or all. One given by its address need not be
    registered. Raises NotFound."""
    known = instances(info, cluster)
    if broker is None:
        if not known:
            raise NotFound(
                "no broker has registered with the name server", hint="start one with `mqctl broker -n host:port`"
            )
        return known
    found = [instance for instance in known if broker in (instance.broker_name, instance.address)]
    if not found and ":" in broker:
        return [Instance("", broker, MASTER_ID, broker)]
    if not found:
        names = sorted({instance.broker_name for instance in known})
        raise NotFound(
            f"there is no broker {broker}", hint=guess(broker, names) or f"known: {', '.join(names) or 'none'}"
        )
    return found


# -- settings -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting at one server. `after` is what the server says, not what it was told."""

    server: str
    address: str
    key: str
    before: str | None
    after: str | None
    error: MqError | None = None


async def broker_config(admin: Admin, address: str) -> dict[str, str]:
    answer = await admin.call(address, Command(RequestCode.GET_BROKER_CONFIG))
    return parse_properties(answer.body.decode(), address)


async def namesrv_config(admin: Admin, address: str) -> dict[str, str]:
    answer = await admin.call(address, Command(RequestCode.GET_NAMESRV_CONFIG))
    return parse_properties(answer.body.decode(), address)


async def change_settings(
    admin: Admin, servers: Mapping[str, str], wanted: Mapping[str, str], *, name_servers: bool, dry_run: bool
) -> list[SettingChange]:
    """`servers` are addresses by name. Servers silently leave out keys that they do not know, and values that they
    cannot read: hence the look before and the look after."""
    read = namesrv_config if name_servers else broker_config
    code = RequestCode.UPDATE_NAMESRV_CONFIG if name_servers else RequestCode.UPDATE_BROKER_CONFIG

    async def change(name: str, address: str) -> list[SettingChange]:
        before: dict[str, str] = {}
        try:
            before = await read(admin, address)
            _check_keys(wanted, before, name)
            after: Mapping[str, str] = {**before, **wanted}
            if not dry_run:
                await admin.call(address, Command(code, body=format_properties(wanted).encode()))
                after = await read(admin, address)
        except MqError as error:
            return [SettingChange(name, address, key, before.get(key), None, error) for key in wanted]
        return [_changed(name, address, key, before[key], after.get(key), wanted[key]) for key in wanted]

    rounds = await asyncio.gather(*(change(*server) for server in servers.items()))
    return [outcome for outcomes in rounds for outcome in outcomes]


def _check_keys(wanted: Mapping[str, str], known: Mapping[str, str], name: str) -> None:
    for key in wanted:
        if key not in known:
            raise NotFound(f"{name} has no setting {key}", hint=guess(key, known))


def _changed(name: str, address: str, key: str, before: str, after: str | None, wanted: str) -> SettingChange:
    error = None
    if after != wanted and after == before:
        error = MqError(f"{name} kept {key}={before}", hint="this value it does not take, or not over the network")
    return SettingChange(name, address, key, before, after, error)


# -- figures --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """How far a group is in one queue, as its broker tells of all groups at once."""

    topic: str
    group: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    last_timestamp: int

    @property
    def behind(self) -> int:
        return self.broker_offset - self.consumer_offset


async def broker_consume_stats(admin: Admin, address: str, *, ordered: bool = False) -> list[GroupQueue]:
    command = Command(RequestCode.GET_BROKER_CONSUME_STATS, ext={"isOrder": str(ordered).lower()})
    answer = await admin.call(address, command, max(admin.timeout, CONSUME_STATS_SECONDS))
    return [
        GroupQueue(
            queue.topic,
            group,
            queue.broker_name,
            queue.queue_id,
            at.broker_offset,
            at.consumer_offset,
            at.last_timestamp,
        )
        for groups in admin.decode(ConsumeStatsList, answer).consume_stats_list
        for group, by_topic in sorted(groups.items())
        for stats in by_topic
        for queue, at in sorted(stats.offset_table.items())
    ]


# -- cleaning -------------------------------------------------------------------------------------------


async def clean(admin: Admin, address: str, what: RequestCode) -> None:
    """CLEAN_EXPIRED_CONSUMEQUEUE, DELETE_EXPIRED_COMMITLOG or CLEAN_UNUSED_TOPIC."""
    await admin.call(address, Command(what), max(admin.timeout, CLEANING_SECONDS))


# -- whether clients may write --------------------------------------------------------------------------


async def set_writable(admin: Admin, address: str, broker_name: str, *, writable: bool) -> int:
    """At one name server, which does not tell the others. Returns the number of topics."""
    code = RequestCode.ADD_WRITE_PERM_OF_BROKER if writable else RequestCode.WIPE_WRITE_PERM_OF_BROKER
    answer = await admin.call(address, Command(code, ext={"brokerName": broker_name}))
    counts: Sequence[str] = [
        value for name, value in answer.fields().items() if name in ("wipeTopicCount", "addTopicCount")
    ]
    return int(counts[0]) if counts and counts[0].isdecimal() else 0
