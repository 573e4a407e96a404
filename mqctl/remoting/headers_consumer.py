"""Typed headers of what brokers ask of consumers."""

from __future__ import annotations

from msgspec import Struct

from mqctl.remoting.headers import Int64


class ConsumerTopicHeader(Struct, rename="camel"):
    """GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str
    group: str


class ResetOffsetHeader(ConsumerTopicHeader, rename="camel"):
    timestamp: Int64 = 0
    is_force: bool = False


class RunningInfoHeader(Struct, rename="camel"):
    consumer_group: str
    client_id: str | None = None
    jstack_enable: bool = False


class ConsumeDirectlyHeader(Struct, rename="camel"):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str = ""
