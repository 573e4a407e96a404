"""Names that mean something to RocketMQ: topics and groups which servers and clients make for themselves.

Written out here, since a driver inside a cluster has the few modules of the scanner and nothing else of mqctl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


def is_system_topic(topic: str) -> bool:
    """One of the servers' own: what waits in there was or will be somewhere else as well."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_user_topic(topic: Column) -> Column:
    """Made by people: neither one of the servers' own nor a group's for retries and dead letters."""
    found = ~topic.isin(*SYSTEM_TOPICS)
    for prefix in (*SYSTEM_PREFIXES, RETRY_PREFIX, DLQ_PREFIX):
        found &= ~topic.startswith(prefix)
    return found
