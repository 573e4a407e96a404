"""The JSON bodies of requests and responses, one struct each, and the two functions that read and write them.

Members carry RocketMQ's names on the wire (camelCase of the field's name unless said otherwise). Unknown
members are ignored and missing or null ones take their default, as Java does it, so 4.9.7 and 5.x bodies both
fit. A member typed `... | None` may be absent and is not written when it is None; one typed `... | UnsetType`
is sent by 5.x only, is kept for passing on, and does not slow down the writing of large tables.

Text that Java keeps as an enum (consume types, languages, ...) stays text here: a name we do not know yet is
no reason to refuse a heartbeat. Integers are held to Java's ranges, so that what was read can also be stored.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from mqctl.remoting import fastjson

T = TypeVar("T", bound="Body | FrozenBody")

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# Bodies that Java writes as strict JSON can still hold loose text, in a member that only a newer release
# knows. Such text is small; more than this is somebody trying to keep the event loop busy (a second per MiB).
MAX_LOOSE_EXTRA: Final = 256 * 1024


class BodyError(ValueError):
    """A body that is not JSON, or not the JSON it should be."""


class Body(msgspec.Struct, rename="camel"):
    """What all bodies share."""

    # How much text that is not strict JSON `decode` is ready to read.
    loose_limit: ClassVar[int] = MAX_LOOSE_EXTRA


class FrozenBody(msgspec.Struct, rename="camel", frozen=True):
    """The same for values that never change."""

    loose_limit: ClassVar[int] = MAX_LOOSE_EXTRA


class TableBody(Body):
    """A body with keys that are not text, which Java writes as loose JSON of any size."""

    loose_limit: ClassVar[int] = fastjson.MAX_LOOSE


def decode(kind: type[T], data: bytes | bytearray | memoryview) -> T:
    """Read a body. Raises BodyError, whatever the bytes are."""
    try:
        return _decoder(kind).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # loose JSON, nulls, numbers as text: look again, forgivingly
    try:
        plain = fastjson.loads(data, loose_limit=kind.loose_limit)
        return msgspec.convert(_without_nulls(plain), kind, strict=False)
    except (fastjson.FastjsonError, msgspec.ValidationError) as error:
        raise BodyError(f"{kind.__name__}: {error}") from None
    except RecursionError:
        raise BodyError(f"{kind.__name__}: nested too deeply") from None


def encode(body: Body | FrozenBody) -> bytes:
    """Write a body so that fastjson (4.9.7) and fastjson2 (5.5) read it."""
    return fastjson.dumps(body)


_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    found = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# -- shapes used in several bodies ------------------------------------------------------------------


class MessageQueue(FrozenBody, frozen=True, order=True):
    """Sorted as Java sorts it: by topic, broker, queue. Used as a key, hence frozen."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int = 0


class DataVersion(FrozenBody, frozen=True, kw_only=True):
    """Which state of a table one has seen. Equal versions mean equal tables.

    A missing state version equals 0, which is what 5.x makes of a version that came from 4.9.7 and returns.
    """

    counter: Long = 0
    timestamp: Long = 0
    state_version: Long | UnsetType = UNSET

    def _identity(self) -> tuple[int, int, int]:
        return self.counter, self.timestamp, self.state_version or 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataVersion) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def next(self, now_ms: int) -> DataVersion:
        """The version after a change made at `now_ms`."""
        return msgspec.structs.replace(self, counter=self.counter + 1, timestamp=now_ms)


class KVTable(Body):
    table: dict[str, str] = {}


class TopicList(Body, kw_only=True):
    topic_list: list[str] = []
    broker_addr: str | None = None


# -- topics and subscription groups (also topics.json, subscriptionGroup.json) ----------------------


class TopicConfig(Body, kw_only=True):
    topic_name: str = ""
    read_queue_nums: Int = 16
    write_queue_nums: Int = 16
    perm: Int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: dict[str, str] | UnsetType = UNSET


class TopicConfigTable(Body, kw_only=True):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class SubscriptionGroupConfig(Body, kw_only=True):
    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int = 1
    retry_max_times: Int = 16
    broker_id: Long = 0
    which_broker_when_consume_slowly: Long = 1
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionGroupTable(Body, kw_only=True):
    data_version: DataVersion = DataVersion()
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


# -- name server ------------------------------------------------------------------------------------


class RegisterBrokerBody(Body, kw_only=True):
    """The plain form. `register_body` has the compressed one, and reads both."""

    # The topic mappings of a 5.x broker are loose JSON that we skip, and grow with its number of topics.
    loose_limit: ClassVar[int] = fastjson.MAX_LOOSE

    topic_config_serialize_wrapper: TopicConfigTable = msgspec.field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = []


class BrokerData(TableBody, kw_only=True):
    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[Long, str] = {}  # by broker id, 0 = master


class QueueData(Body, kw_only=True):
    broker_name: str = ""
    read_queue_nums: Int = 0
    write_queue_nums: Int = 0
    perm: Int = 0
    topic_sys_flag: Int = 0


class TopicRouteData(TableBody, kw_only=True):
    broker_datas: list[BrokerData] = []
    queue_datas: list[QueueData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None


class BrokerMemberGroupBody(TableBody):
    """Reply to GET_BROKER_MEMBER_GROUP (5.x): master and slaves of one broker name."""

    broker_member_group: BrokerData = msgspec.field(default_factory=BrokerData)


class ClusterInfo(TableBody, kw_only=True):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


# -- clients ----------------------------------------------------------------------------------------


class SubscriptionData(Body, kw_only=True):
    topic: str = ""
    sub_string: str = ""
    expression_type: str = "TAG"
    tags_set: set[str] = set()
    code_set: set[Int] = set()
    sub_version: Long = 0
    class_filter_mode: bool = False


class ConsumerData(Body, kw_only=True):
    group_name: str = ""
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(Body, kw_only=True):
    group_name: str = ""


class HeartbeatData(Body, kw_only=True):
    client_id: str = msgspec.field(default="", name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int | UnsetType = UNSET
    without_sub: bool | UnsetType = UNSET


class Connection(Body, kw_only=True):
    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: Int = 0


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(Body):
    connection_set: list[Connection] = []


class ConsumerList(Body):
    """Reply to GET_CONSUMER_LIST_BY_GROUP."""

    consumer_id_list: list[str] = []


class CheckClientBody(Body, kw_only=True):
    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None


class LockBatchBody(Body, kw_only=True):
    """Both LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    consumer_group: str = ""
    client_id: str = ""
    mq_set: list[MessageQueue] = []


class LockBatchResult(Body):
    lock_ok_mq_set: list[MessageQueue] = msgspec.field(default_factory=list, name="lockOKMQSet")


class QueryAssignmentBody(Body, kw_only=True):
    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str = ""
    message_model: str = ""


class MessageQueueAssignment(Body, kw_only=True):
    message_queue: MessageQueue = MessageQueue()
    mode: str = "PULL"
    attachments: dict[str, str] | UnsetType = UNSET


class QueryAssignmentResult(Body):
    message_queue_assignments: list[MessageQueueAssignment] = []


# -- offsets (also consumerOffset.json, delayOffset.json) -------------------------------------------


class TopicOffset(Body, kw_only=True):
    min_offset: Long = 0
    max_offset: Long = 0
    last_update_timestamp: Long = 0


class TopicStatsTable(TableBody):
    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float | UnsetType = UNSET


class OffsetWrapper(Body, kw_only=True):
    broker_offset: Long = 0
    consumer_offset: Long = 0
    last_timestamp: Long = 0
    pull_offset: Long | UnsetType = UNSET


class ConsumeStats(TableBody, kw_only=True):
    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = {}


class ResetOffsetBody(TableBody):
    offset_table: dict[MessageQueue, Long] = {}


class ResetOffsetEntry(Body, kw_only=True):
    topic: str = ""
    broker_name: str = ""
    queue_id: Int = 0
    offset: Long = 0


class ResetOffsetBodyForC(Body):
    """The same for clients that say they are CPP: a list, since they cannot read objects as keys."""

    offset_table: list[ResetOffsetEntry] = []


class GetConsumerStatusBody(Body, kw_only=True):
    """Comes from clients, with the queues of one topic: loose, but not large, so not a TableBody."""

    message_queue_table: dict[MessageQueue, Long] = {}
    consumer_table: dict[str, dict[MessageQueue, Long]] = {}


class ConsumerOffsetTable(TableBody):
    """Queue offsets by `topic@group` and queue id."""

    offset_table: dict[str, dict[Int, Long]] = {}


class DelayOffsetTable(TableBody):
    """Queue offsets by delay level."""

    offset_table: dict[Int, Long] = {}


class OffsetMovedEvent(Body, kw_only=True):
    """Body of the messages in topic OFFSET_MOVED_EVENT."""

    consumer_group: str = ""
    message_queue: MessageQueue = MessageQueue()
    offset_request: Long = 0
    offset_new: Long = 0
