"""What a consumer tells about itself, and how it fared with one message: bodies of GET_CONSUMER_RUNNING_INFO and
CONSUME_MESSAGE_DIRECTLY."""

from __future__ import annotations

from msgspec import field

from mqctl.remoting.bodies import Body, MessageQueue, SubscriptionData, TableBody


class ProcessQueueInfo(Body, kw_only=True):
    """One queue of a consumer. Java spells `droped` so."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Body, kw_only=True):
    """One topic of a consumer, over the last minute; times in ms."""

    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(TableBody, kw_only=True):
    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str | None = None


class ConsumeDirectlyResult(Body, kw_only=True):
    """`consume_result`: CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION and others of Java's CMResult."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str = ""
    remark: str | None = None
    spent_time_mills: int = 0
