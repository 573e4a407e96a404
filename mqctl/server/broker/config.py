"""The broker's configuration: RocketMQ's keys, names and defaults, for what this broker has."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from mqctl.errors import ConfigError
from mqctl.store.consumequeue import ENTRY_SIZE
from mqctl.store.indexfile import Geometry
from mqctl.store.schedule import DEFAULT_LEVELS, parse_levels
from mqctl.store.store import StoreConfig

# Never settable over the wire: what names a path, an address or a command, and what cannot change while
# the broker runs. Remote code executions of the past (CVE-2023-33246) came in through such keys.
PROTECTED_KEYS: Final = frozenset(
    {
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "brokerIP1",
        "bindAddress",
        "listenPort",
        "namesrvAddr",
        "storePathRootDir",
        "storePathCommitLog",
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "messageDelayLevel",
    }
)

# What is looked at once, when the broker starts: set over the wire it counts from the next start.
AT_START_KEYS: Final = frozenset(
    {
        "accessMessageInMemoryMaxRatio",
        "brokerFastFailureEnable",
        "brokerTopicEnable",
        "cleanResourceInterval",
        "clientSendRateLimit",
        "clusterTopicEnable",
        "defaultTopicQueueNums",
        "expectConsumerNumUseFilter",
        "flushConsumerOffsetInterval",
        "flushDelayOffsetInterval",
        "flushDiskType",
        "flushIntervalCommitLog",
        "maxErrorRateOfBloomFilter",
        "maxHashSlotNum",
        "maxIndexNum",
        "messageIndexEnable",
        "msgTraceTopicName",
        "osPageCacheBusyTimeOutMills",
        "rebalanceLockMaxLiveTime",
        "regionId",
        "syncFlushTimeout",
        "topicSendRateLimit",
        "traceOn",
        "traceTopicEnable",
        "transactionCheckInterval",
        "waitTimeMillsInSendQueue",
    }
)


ASYNC_FLUSH: Final = "ASYNC_FLUSH"
SYNC_FLUSH: Final = "SYNC_FLUSH"


class BrokerConfig(Struct, rename="camel", kw_only=True):
    broker_name: str = ""
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_ip1: str = field(name="brokerIP1", default="")
    bind_address: str = "0.0.0.0"
    listen_port: Annotated[int, Meta(ge=3, le=65534)] = 10911  # its neighbours -2 and +1 are used as well
    namesrv_addr: str = ""

    store_path_root_dir: str = "~/store"
    store_path_commit_log: str = ""
    mapped_file_size_commit_log: Annotated[int, Meta(ge=64 * 1024, le=2**31 - 1)] = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: Annotated[int, Meta(ge=ENTRY_SIZE, le=2**31 - 1)] = 300_000 * ENTRY_SIZE

    message_index_enable: bool = True
    max_hash_slot_num: Annotated[int, Meta(ge=1, le=2**28)] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=2, le=2**28)] = 20_000_000
    default_query_max_num: int = 32
    max_msgs_num_batch: int = 64

    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    sync_flush_timeout: int = 5000

    file_reserved_time: Annotated[int, Meta(ge=0)] = 72
    delete_when: Annotated[str, Meta(pattern=r"^([01]?\d|2[0-3])(;([01]?\d|2[0-3]))*;?$")] = "04"
    disk_max_used_space_ratio: int = 75
    clean_file_forcibly_enable: bool = True
    delete_commit_log_files_interval: Annotated[int, Meta(ge=0)] = 100
    clean_resource_interval: Annotated[int, Meta(ge=1)] = 10_000
    # In Java these two are system properties, rocketmq.broker.diskSpace...
    disk_space_clean_forcibly_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.85
    disk_space_warning_level_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.90

    message_delay_level: Annotated[str, Meta(pattern=r"^ *\d{1,9}[smhd]( +\d{1,9}[smhd])* *$")] = DEFAULT_LEVELS
    flush_delay_offset_interval: Annotated[int, Meta(ge=1)] = 10_000
    timer_max_delay_sec: Annotated[int, Meta(ge=0)] = 3 * 24 * 3600

    broker_permission: int = 6
    default_topic_queue_nums: int = 8
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    region_id: str = "DefaultRegion"
    trace_on: bool = True

    max_message_size: int = 4 * 1024 * 1024
    start_accept_send_request_time_stamp: int = 0
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: Annotated[int, Meta(ge=1)] = 200
    os_page_cache_busy_time_out_mills: Annotated[int, Meta(ge=1)] = 1000
    # Messages a second, 0 for any number; these two are mqctl's own.
    topic_send_rate_limit: Annotated[int, Meta(ge=0)] = 0
    client_send_rate_limit: Annotated[int, Meta(ge=0)] = 0
    store_reply_message_enable: bool = True
    # In Java a system property, rocketmq.broker.rebalance.lockMaxLiveTime.
    rebalance_lock_max_live_time: Annotated[int, Meta(ge=1)] = 60_000
    reject_transaction_message: bool = False
    transaction_time_out: int = 6000
    transaction_check_max: int = 15
    transaction_check_interval: Annotated[int, Meta(ge=1)] = 60_000

    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40

    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: Annotated[int, Meta(ge=0)] = 16 * 1024**3

    enable_property_filter: bool = False
    filter_data_clean_time_span: int = 24 * 3600 * 1000
    # These two shape what is kept of a filter in config/consumerFilter.json.
    expect_consumer_num_use_filter: Annotated[int, Meta(ge=1, le=2**20)] = 32
    max_error_rate_of_bloom_filter: Annotated[int, Meta(ge=1, le=99)] = 20

    notify_consumer_ids_changed_enable: bool = True
    flush_consumer_offset_interval: int = 5000
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 6000
    compressed_register: bool = False

    def __post_init__(self) -> None:
        self.broker_name = self.broker_name or socket.gethostname()
        self.broker_ip1 = self.broker_ip1 or local_address()
        self.store_path_commit_log = self.store_path_commit_log or str(Path(self.store_path_root_dir) / "commitlog")
        # Java rounds up as well, so that no entry lies across two files.
        self.mapped_file_size_consume_queue += -self.mapped_file_size_consume_queue % ENTRY_SIZE

    @property
    def address(self) -> str:
        """What name servers and clients are told."""
        host = f"[{self.broker_ip1}]" if ":" in self.broker_ip1 else self.broker_ip1
        return f"{host}:{self.listen_port}"

    @property
    def ha_address(self) -> str:
        """Java derives the replication port like this, whatever haListenPort says."""
        return f"{self.broker_ip1}:{self.listen_port + 1}"

    def store_host(self) -> tuple[str, int]:
        """What goes into every record. Raises ConfigError for a brokerIP1 that is no address and no known name."""
        try:
            family_and_address = socket.getaddrinfo(self.broker_ip1, self.listen_port, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise ConfigError(f"brokerIP1 {self.broker_ip1!r} cannot be resolved: {error.strerror}") from None
        return str(family_and_address[4][0]), self.listen_port

    @property
    def root(self) -> Path:
        return Path(self.store_path_root_dir).expanduser()

    def store_config(self) -> StoreConfig:
        return StoreConfig(
            root=self.root,
            commitlog_dir=Path(self.store_path_commit_log).expanduser(),
            commitlog_file_size=self.mapped_file_size_commit_log,
            queue_file_size=self.mapped_file_size_consume_queue,
            index=Geometry(self.max_hash_slot_num, self.max_index_num) if self.message_index_enable else None,
            delay_levels_ms=parse_levels(self.message_delay_level),
        )


def local_address() -> str:
    """The address other hosts reach this one by: the one the kernel would route outward from. Nothing is
    sent; connecting a datagram socket only chooses a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # a documentation address: never a real host
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
