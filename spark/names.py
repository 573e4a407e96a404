"""Names that mean something to RocketMQ: topics and groups which servers and clients make for themselves.

Written out here, since a driver inside a cluster has the few modules of the scanner and nothing else of mqctl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_")

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"

SYSTEM_TOPICS: Final = (
    SCHEDULE_TOPIC,
    CHECK_MAX_TOPIC,
    "TBW102",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
)

SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_PRODUCER",
)
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


def _starts(name: Column, prefixes: tuple[str, ...]) -> Column:
    found = F.lit(False)
    for prefix in prefixes:
        found = found | name.startswith(prefix)
    return found


def is_system_topic(topic: Column) -> Column:
    """The servers' own: what waits in there was or will be somewhere else as well."""
    return topic.isin(*SYSTEM_TOPICS) | _starts(topic, SYSTEM_PREFIXES)


def is_user_topic(topic: Column) -> Column:
    """Made by people: neither the servers' own nor a group's for retries and dead letters."""
    return ~(is_system_topic(topic) | _starts(topic, (RETRY_PREFIX, DLQ_PREFIX)))


def is_system_group(group: Column) -> Column:
    return group.isin(*SYSTEM_GROUPS) | group.startswith(SYSTEM_GROUP_PREFIX)
