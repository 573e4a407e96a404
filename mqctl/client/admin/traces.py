"""Reading message traces: lines in RMQ_SYS_TRACE_TOPIC that clients write about what they send and consume.

Fields have 0x01 between them, a line ends with 0x02; releases added fields at the end:

    Pub             time region group topic msgId tags keys storeHost bodyLength cost type [offsetMsgId] success [host]
    SubBefore       time region group requestId msgId retryTimes keys [clientHost]
    SubAfter        requestId msgId cost success keys [code [time group]]
    EndTransaction  time region group topic msgId tags keys storeHost type transactionId state fromCheck
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import Answers
from mqctl.client.admin.messages import MAX_FOUND, by_key
from mqctl.client.admin.selecting import body_of
from mqctl.remoting.message import ReceivedMessage

_FIELD: Final = "\x01"
_END: Final = "\x02"

# By the ordinals of Java's ConsumeReturnType.
_RESULTS: Final = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")


@dataclass(frozen=True, slots=True)
class Trace:
    """Something that happened to a message; times in ms, None where a trace does not say."""

    kind: str  # Pub, Sub or EndTransaction
    group: str
    client_host: str
    timestamp: int | None
    cost_ms: int | None
    status: str
    topic: str | None = None
    retry_times: int | None = None


async def traces_of(admin: Admin, trace_topic: str, msg_id: str) -> tuple[list[Trace], Answers[list[ReceivedMessage]]]:
    """What is told about a message, the earliest first."""
    answers = await by_key(admin, trace_topic, msg_id, maximum=MAX_FOUND)
    told = [message for messages in answers.given.values() for message in messages]
    return decode_traces(told, msg_id), answers


def decode_traces(messages: Iterable[ReceivedMessage], msg_id: str) -> list[Trace]:
    """The lines about one message. A line that is too short to be understood is passed over: it is from a client that
    writes its own."""
    found: list[Trace] = []
    begun: dict[str, Trace] = {}
    ended: list[list[str]] = []
    for message in messages:
        for line in body_of(message).decode(errors="replace").split(_END):
            fields = line.split(_FIELD)
            kind = fields[0]
            if kind == "Pub" and len(fields) > 12 and fields[5] == msg_id:
                found.append(_sent(fields, message))
            elif kind == "SubBefore" and len(fields) > 7 and fields[5] == msg_id:
                begun[fields[4]] = _begun(fields, message)
            elif kind == "SubAfter" and len(fields) > 5 and fields[2] == msg_id:
                ended.append(fields)
            elif kind == "EndTransaction" and len(fields) > 12 and fields[5] == msg_id:
                host = message.born_host[0]
                found.append(Trace(kind, fields[3], host, _number(fields[1]), None, fields[11], fields[4]))
    for fields in ended:
        if (before := begun.get(fields[1])) is not None:
            begun[fields[1]] = replace(before, cost_ms=_number(fields[3]), status=_result(fields))
    return sorted([*found, *begun.values()], key=lambda trace: trace.timestamp or 0)


def _sent(fields: list[str], message: ReceivedMessage) -> Trace:
    # The offset id came to stand before it in later releases, the client's host behind it.
    success = fields[12] if len(fields) == 13 else fields[13]
    host = fields[14] if len(fields) > 14 and fields[14] else message.born_host[0]
    status = "success" if success == "true" else "failed"
    return Trace("Pub", fields[3], host, _number(fields[1]), _number(fields[10]), status, fields[4])


def _begun(fields: list[str], message: ReceivedMessage) -> Trace:
    host = fields[8] if len(fields) > 8 and fields[8] else message.born_host[0]
    return Trace("Sub", fields[3], host, _number(fields[1]), None, "not finished", None, _number(fields[6]))


def _result(fields: list[str]) -> str:
    code = _number(fields[6]) if len(fields) > 6 else None
    if code is not None and 0 <= code < len(_RESULTS):
        return _RESULTS[code].lower()
    return "success" if fields[4] == "true" else "failed"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
