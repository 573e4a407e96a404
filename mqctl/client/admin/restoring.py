"""Putting back what the journal holds. One class per kind of thing: how it is now, and how to make it so again.

A change of an entry holds what identifies the thing (`brokerAddr` and a name), and its states before and after as plain
data; see mqctl.journal. Undoing is putting `before` back where things still are as `after` says, in the order in which
they were changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import delete_group, group_configs, members, put_group
from mqctl.client.admin.everywhere import ask_each
from mqctl.client.admin.repositioning import commit_offset, committed_offset
from mqctl.client.admin.topics import delete_topic
from mqctl.errors import ConfigError, MqError
from mqctl.journal import Change, Entry
from mqctl.properties import format_properties, parse_properties
from mqctl.remoting.bodies import MessageQueue, TopicConfig
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command


class Impossible(MqError):
    """Brokers have no way to do it, so trying again is no use."""


class Partly(MqError):
    """Some of several servers did it. Trying again goes on with the others."""


class Kind(Protocol):
    async def check(self, admin: Admin, changes: Sequence[Change]) -> None:
        """Raises MqError when these cannot be put back now."""

    async def current(self, admin: Admin, changes: Sequence[Change]) -> list[Any]:
        """The state of each, or the MqError that kept it from being found out."""

    async def put(self, admin: Admin, change: Change, state: Any) -> None: ...


class _Always:
    async def check(self, admin: Admin, changes: Sequence[Change]) -> None:
        return


async def _one_by_one(changes: Sequence[Change], ask: Callable[[Change], Awaitable[Any]]) -> list[Any]:
    async def attempt(change: Change) -> Any:
        try:
            return await ask(change)
        except MqError as error:
            return error

    return await ask_each(changes, attempt)


async def _listed(
    changes: Sequence[Change], name: str, ask: Callable[[str], Awaitable[Mapping[str, Any]]]
) -> list[Any]:
    """For servers that tell of all they have at once: each is asked only once."""

    async def attempt(address: str) -> Mapping[str, Any] | MqError:
        try:
            return await ask(address)
        except MqError as error:
            return error

    addresses = list({change["brokerAddr"] for change in changes})
    tables = dict(zip(addresses, await ask_each(addresses, attempt), strict=True))
    return [
        table if isinstance(table, MqError) else table.get(change[name])
        for change in changes
        for table in [tables[change["brokerAddr"]]]
    ]


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

    async def current(self, admin: Admin, changes: Sequence[Change]) -> list[Any]:
        async def ask(change: Change) -> int | None:
            return await committed_offset(admin, change["brokerAddr"], change["group"], self._queue(change))

        return await _one_by_one(changes, ask)

    async def put(self, admin: Admin, change: Change, state: int | None) -> None:
        if state is None:
            raise Impossible("the group had no offset here, and brokers cannot forget one queue's offset")
        await commit_offset(admin, change["brokerAddr"], change["group"], self._queue(change), state)

    def _queue(self, change: Change) -> MessageQueue:
        return MessageQueue(change["topic"], change["brokerName"], change["queueId"])


class Group(_Always):
    """Keys: brokerAddr, group. State: the group's settings."""

    async def current(self, admin: Admin, changes: Sequence[Change]) -> list[Any]:
        return await _listed(changes, "group", lambda address: group_configs(admin, address))

    async def put(self, admin: Admin, change: Change, state: dict[str, Any] | None) -> None:
        if state is None:
            await delete_group(admin, change["brokerAddr"], change["group"], offsets=False)
        else:
            await put_group(admin, change["brokerAddr"], state)


class Topic(_Always):
    """Keys: brokerAddr, topic. State: the topic's configuration. A topic that was not there before is deleted again;
    one that was deleted comes back empty."""

    async def current(self, admin: Admin, changes: Sequence[Change]) -> list[Any]:
        return await _listed(changes, "topic", lambda address: self._all(admin, address))

    async def _all(self, admin: Admin, address: str) -> dict[str, Any]:
        return {topic: msgspec.to_builtins(config) for topic, config in (await admin.topic_configs(address)).items()}

    async def put(self, admin: Admin, change: Change, state: dict[str, Any] | None) -> None:
        if state is None:
            for error in (await delete_topic(admin, change["topic"], [change["brokerAddr"]])).values():
                raise Partly(error.message)
        else:
            await admin.create_topic(change["brokerAddr"], msgspec.convert(state, TopicConfig))


@dataclass(frozen=True, slots=True)
class Setting(_Always):
    """Keys: brokerAddr, key; `brokerAddr` is the server's, also a name server's. State: the value, as text."""

    read: RequestCode
    write: RequestCode

    async def current(self, admin: Admin, changes: Sequence[Change]) -> list[Any]:
        async def ask(address: str) -> dict[str, str]:
            return parse_properties((await admin.call(address, Command(self.read))).body.decode())

        return await _listed(changes, "key", ask)

    async def put(self, admin: Admin, change: Change, state: str | None) -> None:
        if state is None:
            raise Impossible(f"there was no setting {change['key']}, and none can be taken away")
        body = format_properties({change["key"]: state}).encode()
        await admin.call(change["brokerAddr"], Command(self.write, body=body))


class KeyValue(_Always):
    """Keys: namespace, key. State: the value at the name servers."""

    async def current(self, admin: Admin, changes: Sequence[Change]) -> list[Any]:
        return await _one_by_one(changes, lambda change: self._current(admin, change))

    async def _current(self, admin: Admin, change: Change) -> str | None:
        """Where name servers differ, what one has that is not yet as it was: an undo done in part goes on there."""
        before: str | None = change["before"]
        answers = await admin.kv_everywhere(change["namespace"], change["key"])
        for value in answers.given.values():
            if value != before:
                return value
        for error in answers.failed.values():
            raise error
        return before

    async def put(self, admin: Admin, change: Change, state: str | None) -> None:
        for error in (await admin.put_kv_config(change["namespace"], change["key"], state)).values():
            raise Partly(error.message)


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
        return self.error is None and self.now not in (self.change["after"], self.change["before"])

    @property
    def done(self) -> bool:
        """At some servers at least."""
        return self.error is None or isinstance(self.error, Partly)


def _kind_of(entry: Entry, change: Change) -> str:
    return str(change.get("kind", entry.kind))


async def look(admin: Admin, entry: Entry) -> list[Restored]:
    """How things are now, with `error` where that is not known. Raises MqError when nothing can be put back."""
    by_kind: dict[str, list[Change]] = {}
    for change in entry.changes:
        by_kind.setdefault(_kind_of(entry, change), []).append(change)
    unknown = by_kind.keys() - KINDS
    if unknown:
        raise ConfigError(f"this version cannot undo a change of kind {', '.join(sorted(unknown))}")
    found: list[Restored] = []
    for name, changes in by_kind.items():
        await KINDS[name].check(admin, changes)
        states = await KINDS[name].current(admin, changes)
        found += [
            Restored(change, None, now) if isinstance(now, MqError) else Restored(change, now)
            for change, now in zip(changes, states, strict=True)
        ]
    if found and all(restored.error is not None for restored in found):
        raise next(restored.error for restored in found if restored.error is not None)
    return found


async def put_back(admin: Admin, entry: Entry, found: Sequence[Restored]) -> None:
    """Sets `error` of those that failed; the others are done."""
    for restored in found:
        if restored.error is not None or restored.now == restored.change["before"]:
            continue
        try:
            await KINDS[_kind_of(entry, restored.change)].put(admin, restored.change, restored.change["before"])
        except MqError as error:
            restored.error = error
