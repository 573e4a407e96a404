"""Listeners that leave traces: when each message was begun, how it ended and how long that took."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

from mqctl.client.calling import is_coroutine_function
from mqctl.client.listening import Listener, RetryLater
from mqctl.client.tracing import DEFAULT_REGION, Tracer
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.unique_id import UniqueIdGenerator
from mqctl.store.properties import KEYS, MSG_REGION, TRACE_ON

# The ordinals of Java's ConsumeReturnType.
_SUCCESS: Final = 0
_EXCEPTION: Final = 2
_FAILED: Final = 4


class _Call(NamedTuple):
    """One call of the listener."""

    request_id: str
    began_ms: int
    messages: list[ReceivedMessage]


class _Notes:
    """Any thread. Writes lines as Java's TraceDataEncoder does."""

    def __init__(self, tracer: Tracer, group: str) -> None:
        self._tracer = tracer
        self._group = group
        self._new_id = UniqueIdGenerator()

    def begun(self, given: ReceivedMessage | list[ReceivedMessage]) -> _Call:
        messages = given if isinstance(given, list) else [given]
        traced = [message for message in messages if message.properties.get(TRACE_ON) != "false"]
        call = _Call(self._new_id(), time.time_ns() // 1_000_000, traced)
        for message in traced:
            region = message.properties.get(MSG_REGION) or DEFAULT_REGION
            self._tracer.add(
                [message.msg_id, *message.keys],
                "SubBefore",
                call.began_ms,
                region,
                self._group,
                call.request_id,
                message.msg_id,
                message.reconsume_times,
                message.properties.get(KEYS, ""),
            )
        return call

    def ended(self, call: _Call, code: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        cost_ms = (now_ms - call.began_ms) // max(len(call.messages), 1)
        for message in call.messages:
            self._tracer.add(
                [message.msg_id, *message.keys],
                "SubAfter",
                call.request_id,
                message.msg_id,
                cost_ms,
                "true" if code == _SUCCESS else "false",
                message.properties.get(KEYS, ""),
                code,
                now_ms,
                self._group,
            )

    def failed(self, call: _Call, error: BaseException) -> None:
        self.ended(call, _FAILED if isinstance(error, RetryLater) else _EXCEPTION)


def traced(listener: Listener, tracer: Tracer, group: str) -> Listener:
    """The listener, which now leaves traces."""
    notes = _Notes(tracer, group)
    if is_coroutine_function(listener):
        return _around_coroutine(cast("Callable[[Any], Awaitable[object]]", listener), notes)
    return _around_plain(cast("Callable[[Any], object]", listener), notes)


def _around_coroutine(listener: Callable[[Any], Awaitable[object]], notes: _Notes) -> Listener:
    @functools.wraps(listener)
    async def take(given: Any) -> None:
        call = notes.begun(given)
        await _awaited(listener(given), call, notes)

    return take


def _around_plain(listener: Callable[[Any], object], notes: _Notes) -> Listener:
    @functools.wraps(listener)
    def take(given: Any) -> Awaitable[None] | None:
        call = notes.begun(given)
        try:
            result = listener(given)
        except BaseException as error:
            notes.failed(call, error)
            raise
        if inspect.isawaitable(result):
            return _awaited(result, call, notes)
        notes.ended(call, _SUCCESS)
        return None

    return take


async def _awaited(work: Awaitable[object], call: _Call, notes: _Notes) -> None:
    try:
        await work
    except BaseException as error:
        notes.failed(call, error)
        raise
    notes.ended(call, _SUCCESS)
