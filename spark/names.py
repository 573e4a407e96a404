"""Whose topic it is: the servers' own, or people's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqctl.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    OFFSET_MOVED_EVENT,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TRANS_CHECK_MAX_TOPIC,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

SYSTEM_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_")
SYSTEM_TOPICS: Final = (SCHEDULE_TOPIC, TRANS_CHECK_MAX_TOPIC, AUTO_CREATE_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT)


def is_system_topic(topic: str) -> bool:
    """One of the servers' own: what waits in there was or will be somewhere else as well."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_user_topic(topic: Column) -> Column:
    """Made by people: neither one of the servers' own nor a group's for retries and dead letters."""
    found = ~topic.isin(*SYSTEM_TOPICS)
    for prefix in (*SYSTEM_PREFIXES, RETRY_PREFIX, DLQ_PREFIX):
        found &= ~topic.startswith(prefix)
    return found
