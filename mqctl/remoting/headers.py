"""Typed request headers: the extFields each request code carries.

Attribute names are Python's, wire names are Java's field names (`rename="camel"`). A field without a default
is required; a request that lacks it is answered with an error that names it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from mqctl.remoting.command import Command, HeaderError

# Java's int and long. A number outside would wrap around there; here the sender is told.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class SendMessageHeader(Struct, gc=False):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: one-letter names, because every message pays for them."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str = field(name="i", default="")
    reconsume_times: Int32 = field(name="j", default=0)
    unit_mode: bool = field(name="k", default=False)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool = field(name="m", default=False)


# SEND_MESSAGE, which older clients and the Go client use, spells the same fields out.
_LONG_NAMES: Final = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}
_SHORT_NAMES: Final = {short: long for long, short in _LONG_NAMES.items()}
_FIELD_IN_ERROR: Final = re.compile(r"(`(?:\$\.)?)([a-m])`")


def long_send_header(request: Command) -> SendMessageHeader:
    """The header of a SEND_MESSAGE. Raises HeaderError, in which the fields have their long names."""
    short = {_LONG_NAMES[name]: value for name, value in request.fields().items() if name in _LONG_NAMES}
    try:
        return msgspec.convert(short, SendMessageHeader, strict=False)
    except msgspec.ValidationError as error:
        raise HeaderError(
            _FIELD_IN_ERROR.sub(lambda found: f"{found[1]}{_SHORT_NAMES[found[2]]}`", str(error))
        ) from None


class PullMessageHeader(Struct, rename="camel", gc=False):
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None


class SendBackHeader(Struct, rename="camel"):
    """CONSUMER_SEND_MSG_BACK. `offset` is the message's place in the commit log."""

    offset: Int64
    group: str
    delay_level: Int32
    max_reconsume_times: Int32 | None = None


class TopicQueueHeader(Struct, rename="camel"):
    """GET_MAX_OFFSET, GET_MIN_OFFSET, GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32


class SearchOffsetHeader(Struct, rename="camel"):
    topic: str
    queue_id: Int32
    timestamp: Int64


class QueryConsumerOffsetHeader(Struct, rename="camel"):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetHeader(Struct, rename="camel"):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class UnregisterClientHeader(Struct, rename="camel"):
    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Struct, rename="camel"):
    consumer_group: str


class ProducerGroupHeader(Struct, rename="camel"):
    producer_group: str


class CreateTopicHeader(Struct, rename="camel"):
    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    default_topic: str = ""
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False


class TopicHeader(Struct, rename="camel"):
    topic: str


class QueryMessageHeader(Struct, rename="camel"):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool = field(name="_UNIQUE_KEY_QUERY", default=False)


class ViewMessageHeader(Struct, rename="camel"):
    offset: Int64


class EndTransactionHeader(Struct, rename="camel"):
    producer_group: str
    tran_state_table_offset: Int64  # the half message's place in its queue
    commit_log_offset: Int64  # and in the log
    commit_or_rollback: Int32


class ResumeCheckHalfMessageHeader(Struct, rename="camel"):
    msg_id: str


class RecallMessageHeader(Struct, rename="camel"):
    topic: str
    recall_handle: str
    producer_group: str = ""
