"""What a producer learns about a message it sent."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from mqctl.errors import ResponseError, RetriableResponse
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.codes import ResponseCode


class SendStatus(StrEnum):
    """SEND_OK: as safe as the broker's configuration asks. The next three, Java's names: in the log, but not
    flushed or replicated in time. SPOOLED: in the producer's own file, since no broker could be reached."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SPOOLED = "SPOOLED"


# Codes after which the message is in the log.
STORED: Final = {
    ResponseCode.SUCCESS.value: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT.value: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT.value: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE.value: SendStatus.SLAVE_NOT_AVAILABLE,
}

# After which Java's producers turn to another broker (DefaultMQProducer.retryResponseCodes); SYSTEM_BUSY since 5.x.
_TRY_ELSEWHERE: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR.value,
        ResponseCode.SYSTEM_BUSY.value,
        ResponseCode.SERVICE_NOT_AVAILABLE.value,
        ResponseCode.NO_PERMISSION.value,
        ResponseCode.TOPIC_NOT_EXIST.value,
        ResponseCode.NO_BUYER_ID.value,
        ResponseCode.NOT_IN_CURRENT_UNIT.value,
    }
)


class SendResult(Struct, frozen=True, gc=False):
    """`offset_msg_id` says where the record lies (of a batch: all of them, with commas between); `msg_id` is the
    one its producer gave it. A spooled message has no place yet: queue id and offset are -1."""

    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus
    recall_handle: str = ""  # of a delayed message, from brokers that can take it back: for `Producer.recall`


def refusal(code: int, remark: str | None, address: str) -> ResponseError:
    """The error for a code that is not one of STORED."""
    return (RetriableResponse if code in _TRY_ELSEWHERE else ResponseError)(code, remark, address)
