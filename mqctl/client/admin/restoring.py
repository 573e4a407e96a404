"""Putting back what the journal holds. One class per kind of thing: how it is now, and how to make it so again.

A change of an entry holds what identifies the thing (`brokerAddr` and a name), and its states before and after as plain
data; see mqctl.journal. Undoing is putting `before` back where things still are as `after` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import delete_group, group_config, members, put_group
from mqctl.client.admin.repositioning import commit_offset, committed_offset
from mqctl.client.admin.topics import delete_topic
from mqctl.errors import ConfigError, MqError
from mqctl.journal import Change, Entry
from mqctl.properties import format_properties, parse_properties
from mqctl.remoting.bodies import MessageQueue, TopicConfig
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command


class Kind(Protocol):
    async def check(self, admin: Admin, changes: Sequence[Change]) -> None:
        """Raises MqError when these cannot be put back now."""

    async def current(self, admin: Admin, change: Change) -> Any: ...

    async def put(self, admin: Admin, change: Change, state: Any) -> None: ...


class _Always:
    async def check(self, admin: Admin, changes: Sequence[Change]) -> None:
        return


class Offset:
    """Keys: brokerAddr, brokerName, group, topic, queueId. State: the offset."""

    async def check(self, admin: Admin, changes: Sequence[Change]) -> None:
        brokers = {change["brokerName"]: change["brokerAddr"] for change in changes}
        for group in {change["group"] for change in changes}:
            running = await members(admin, brokers, group)
            if running is not None:
                raise MqError(
                    f"{len(running.connection_set)} consumers of {group} run and would write their own offsets again",
                    hint="stop them first, or move the group with `mqctl offset reset`",
                )

    async def current(self, admin: Admin, change: Change) -> int | None:
        return await committed_offset(admin, change["brokerAddr"], change["group"], self._queue(change))

    async def put(self, admin: Admin, change: Change, state: int | None) -> None:
        if state is None:
            raise MqError("the group had no offset here, and brokers cannot forget one queue's offset")
        await commit_offset(admin, change["brokerAddr"], change["group"], self._queue(change), state)

    def _queue(self, change: Change) -> MessageQueue:
        return MessageQueue(change["topic"], change["brokerName"], change["queueId"])


class Group(_Always):
    """Keys: brokerAddr, group. State: the group's settings."""

    async def current(self, admin: Admin, change: Change) -> dict[str, Any] | None:
        return await group_config(admin, change["brokerAddr"], change["group"])

    async def put(self, admin: Admin, change: Change, state: dict[str, Any] | None) -> None:
        if state is None:
            await delete_group(admin, change["brokerAddr"], change["group"], offsets=False)
        else:
            await put_group(admin, change["brokerAddr"], state)


class Topic(_Always):
    """Keys: brokerAddr, topic. State: the topic's configuration. A topic that was not there before is deleted again;
    one that was deleted comes back empty."""

    async def current(self, admin: Admin, change: Change) -> dict[str, Any] | None:
        config = await admin.topic_config(change["brokerAddr"], change["topic"])
        return None if config is None else msgspec.to_builtins(config)

    async def put(self, admin: Admin, change: Change, state: dict[str, Any] | None) -> None:
        if state is None:
            await delete_topic(admin, change["topic"], [change["brokerAddr"]])
        else:
            await admin.create_topic(change["brokerAddr"], msgspec.convert(state, TopicConfig))


@dataclass(frozen=True, slots=True)
class Setting(_Always):
    """Keys: brokerAddr, key; `brokerAddr` is the server's, also a name server's. State: the value, as text."""

    read: RequestCode
    write: RequestCode

    async def current(self, admin: Admin, change: Change) -> str | None:
        answer = await admin.call(change["brokerAddr"], Command(self.read))
        return parse_properties(answer.body.decode()).get(change["key"])

    async def put(self, admin: Admin, change: Change, state: str | None) -> None:
        if state is None:
            raise MqError(f"there was no setting {change['key']}, and none can be taken away")
        body = format_properties({change["key"]: state}).encode()
        await admin.call(change["brokerAddr"], Command(self.write, body=body))


class KeyValue(_Always):
    """Keys: namespace, key. State: the value at the name servers."""

    async def current(self, admin: Admin, change: Change) -> str | None:
        return await admin.kv_config(change["namespace"], change["key"])

    async def put(self, admin: Admin, change: Change, state: str | None) -> None:
        await admin.put_kv_config(change["namespace"], change["key"], state)


KINDS: Final[dict[str, Kind]] = {
    "offset": Offset(),
    "group": Group(),
    "topic": Topic(),
    "brokerConfig": Setting(RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG),
    "namesrvConfig": Setting(RequestCode.GET_NAMESRV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG),
    "kv": KeyValue(),
}


@dataclass(slots=True)
class Restored:
    """One change taken back: from `now` to what it was."""

    change: Change
    now: Any
    error: MqError | None = None

    @property
    def overtaken(self) -> bool:
        """Somebody changed it again since."""
        return bool(self.now not in (self.change["after"], self.change["before"]))


async def look(admin: Admin, entry: Entry) -> list[Restored]:
    """How things are now. Raises MqError when nothing can be put back."""
    kind = KINDS.get(entry.kind)
    if kind is None:
        raise ConfigError(f"this version cannot undo a change of kind {entry.kind!r}")
    await kind.check(admin, entry.changes)
    return [Restored(change, await kind.current(admin, change)) for change in entry.changes]


async def put_back(admin: Admin, entry: Entry, found: Sequence[Restored]) -> None:
    """Sets `error` of those that failed; the others are done."""
    for restored in found:
        if restored.now == restored.change["before"]:
            continue
        try:
            await KINDS[entry.kind].put(admin, restored.change, restored.change["before"])
        except MqError as error:
            restored.error = error
