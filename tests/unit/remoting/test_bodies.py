"""Bodies: texts that Java wrote, the bytes we write, and bytes that are neither."""

import zlib
from contextlib import suppress
from struct import pack
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.remoting import bodies, fastjson, register_body
from mqctl.remoting.bodies import (
    BodyError,
    BrokerData,
    ClusterInfo,
    ConsumerConnection,
    ConsumerData,
    ConsumerOffsetTable,
    ConsumeStats,
    DataVersion,
    DelayOffsetTable,
    GetConsumerStatusBody,
    HeartbeatData,
    LockBatchBody,
    LockBatchResult,
    MessageQueue,
    MessageQueueAssignment,
    OffsetWrapper,
    ProducerData,
    QueryAssignmentResult,
    QueueData,
    RegisterBrokerBody,
    ResetOffsetBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicOffset,
    TopicRouteData,
    TopicStatsTable,
    decode,
    encode,
)

ALL_KINDS = [
    kind
    for kind in vars(bodies).values()
    if isinstance(kind, type)
    and issubclass(kind, bodies.Body | bodies.FrozenBody)
    and kind not in (bodies.Body, bodies.FrozenBody, bodies.TableBody)
]
QUEUE = MessageQueue("t", "b", 2)

# A text of Java's and the value it stands for. All of these must come out of `encode` byte for byte, too.
TEXTS: list[tuple[bytes, Any]] = [
    (b'{"brokerName":"b","queueId":2,"topic":"t"}', QUEUE),
    (b'{"counter":7,"timestamp":1794982579746}', DataVersion(counter=7, timestamp=1794982579746)),
    (
        b'{"dataVersion":{"counter":7,"timestamp":1794982579746},"topicConfigTable":{"T":{"order":false,"perm":6,'
        b'"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}}}',
        TopicConfigTable(
            data_version=DataVersion(counter=7, timestamp=1794982579746),
            topic_config_table={"T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)},
        ),
    ),
    (
        b'{"dataVersion":{"counter":1,"timestamp":1794982241681},"subscriptionGroupTable":{"G":{"brokerId":0,'
        b'"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"G",'
        b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
        b'"whichBrokerWhenConsumeSlowly":1}}}',
        SubscriptionGroupTable(
            data_version=DataVersion(counter=1, timestamp=1794982241681),
            subscription_group_table={"G": SubscriptionGroupConfig(group_name="G")},
        ),
    ),
    (
        b'{"clientID":"ip@instance","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":['
        b'{"classFilterMode":false,"codeSet":[-5,97],"expressionType":"TAG","subString":"a || b","subVersion":9,'
        b'"tagsSet":["a","b"],"topic":"t"}],"unitMode":false}],"producerDataSet":[{"groupName":"p"}]}',
        HeartbeatData(
            client_id="ip@instance",
            producer_data_set=[ProducerData(group_name="p")],
            consumer_data_set=[
                ConsumerData(
                    group_name="g",
                    consume_type="CONSUME_PASSIVELY",
                    message_model="CLUSTERING",
                    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                    subscription_data_set=[
                        SubscriptionData(
                            topic="t",
                            sub_string="a || b",
                            tags_set={"a", "b"},
                            code_set={97, -5},
                            sub_version=9,
                        )
                    ],
                )
            ],
        ),
    ),
    (
        b'{"offsetTable":{{"brokerName":"b","queueId":2,"topic":"t"}:'
        b'{"lastUpdateTimestamp":1,"maxOffset":1,"minOffset":0}}}',
        TopicStatsTable({QUEUE: TopicOffset(last_update_timestamp=1, max_offset=1)}),
    ),
    (
        b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":2,"topic":"t"}:'
        b'{"brokerOffset":9,"consumerOffset":7,"lastTimestamp":5}}}',
        ConsumeStats(offset_table={QUEUE: OffsetWrapper(broker_offset=9, consumer_offset=7, last_timestamp=5)}),
    ),
    (b'{"offsetTable":{{"brokerName":"b","queueId":2,"topic":"t"}:5}}', ResetOffsetBody({QUEUE: 5})),
    (
        b'{"consumerTable":{"c@1":{{"brokerName":"b","queueId":2,"topic":"t"}:1099511627776}},"messageQueueTable":{}}',
        GetConsumerStatusBody(consumer_table={"c@1": {QUEUE: 2**40}}),
    ),
    (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"1.1.1.1:1","1":"2.2.2.2:2"},"brokerName":"b","cluster":"c"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,'
        b'"writeQueueNums":4}]}',
        TopicRouteData(
            broker_datas=[BrokerData(cluster="c", broker_name="b", broker_addrs={0: "1.1.1.1:1", 1: "2.2.2.2:2"})],
            queue_datas=[QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6)],
        ),
    ),
    (b'{"topicList":["a","b"]}', TopicList(topic_list=["a", "b"])),
    (b'{"lockOKMQSet":[{"brokerName":"b","queueId":2,"topic":"t"}]}', LockBatchResult([QUEUE])),
    (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":2,"topic":"t"},"mode":"PULL"}]}',
        QueryAssignmentResult([MessageQueueAssignment(message_queue=QUEUE)]),
    ),
]


@pytest.mark.parametrize(("text", "value"), TEXTS, ids=lambda item: type(item).__name__)
def test_texts_of_java(text: bytes, value: Any) -> None:
    assert decode(type(value), text) == value
    assert encode(value) == text
    assert decode(type(value), memoryview(text)) == value
    assert decode(type(value), fastjson.dumps_pretty(value)) == value


# -- forms that only readers meet -------------------------------------------------------------------


def test_integer_keys_without_quotes() -> None:
    text = (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"1.1.1.1:1"},"brokerName":"b","cluster":"c"}},'
        b'"clusterAddrTable":{"c":["b"]}}'
    )
    assert decode(ClusterInfo, text) == ClusterInfo(
        broker_addr_table={"b": BrokerData(cluster="c", broker_name="b", broker_addrs={0: "1.1.1.1:1"})},
        cluster_addr_table={"c": ["b"]},
    )


def test_offset_files() -> None:
    text = b'{\n\t"offsetTable":{\n\t\t"T@G":{0:4,1:0\n\t\t}\n\t}\n}'
    assert decode(ConsumerOffsetTable, text) == ConsumerOffsetTable({"T@G": {0: 4, 1: 0}})
    assert fastjson.dumps_pretty(decode(ConsumerOffsetTable, text)) == text
    assert decode(DelayOffsetTable, b'{"offsetTable":{1:5,"3":1}}') == DelayOffsetTable({1: 5, 3: 1})


def test_members_of_5_x_are_kept_or_ignored() -> None:
    text = (
        b'{"attributes":{"+message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":'
        b'"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":8}'
    )
    assert encode(decode(TopicConfig, text)) == text
    lock = decode(LockBatchBody, b'{"clientId":"c","consumerGroup":"g","mqSet":[],"onlyThisBroker":true}')
    assert lock == LockBatchBody(client_id="c", consumer_group="g")
    heartbeat = decode(HeartbeatData, b'{"clientID":"c","heartbeatFingerprint":-7,"withoutSub":true}')
    assert (heartbeat.heartbeat_fingerprint, heartbeat.without_sub) == (-7, True)


def test_loose_text_in_a_member_we_do_not_know() -> None:
    assert decode(TopicConfig, b'{"new":{0:{1:2}},"topicName":"T"}') == TopicConfig(topic_name="T")


def test_null_and_missing_members_take_their_default() -> None:
    assert decode(SubscriptionData, b'{"expressionType":null,"tagsSet":null}') == SubscriptionData()
    assert decode(MessageQueueAssignment, b'{"attachments":null,"messageQueue":null}').mode == "PULL"
    for kind in ALL_KINDS:
        assert decode(kind, b"{}") == kind()


def test_numbers_as_text_and_the_reverse() -> None:
    assert decode(MessageQueue, b'{"queueId":"3"}').queue_id == 3
    with pytest.raises(BodyError):
        decode(MessageQueue, b'{"topic":3}')


def test_defaults_are_not_shared() -> None:
    decode(TopicList, b"{}").topic_list.append("x")
    assert TopicList().topic_list == []


def test_absent_members_are_not_written() -> None:
    assert encode(ConsumerConnection()) == b'{"connectionSet":[],"subscriptionTable":{}}'
    assert fastjson.dumps_pretty(DataVersion()) == b'{\n\t"counter":0,\n\t"timestamp":0\n}'


# -- values -----------------------------------------------------------------------------------------


def test_queues_sort_by_topic_broker_queue() -> None:
    wanted = [("a", "a", 9), ("a", "a", 10), ("a", "b", 0), ("b", "a", 0)]
    found = sorted(MessageQueue(*parts) for parts in reversed(wanted))
    assert [(queue.topic, queue.broker_name, queue.queue_id) for queue in found] == wanted
    assert len({QUEUE, MessageQueue("t", "b", 2)}) == 1


def test_data_version() -> None:
    assert DataVersion(counter=3, timestamp=5).next(77) == DataVersion(counter=4, timestamp=77)
    assert DataVersion(counter=3) != DataVersion(counter=3, timestamp=1)
    assert DataVersion(counter=3) == DataVersion(counter=3, state_version=0)
    assert hash(DataVersion(counter=3)) == hash(DataVersion(counter=3, state_version=0))
    assert DataVersion(counter=3) != DataVersion(counter=3, state_version=1)


# -- hostile bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b'"x"',
        b"{",
        b'{"offsetTable":7}',
        b'{"offsetTable":{"x":{"y":1}}}',
        b'{"offsetTable":{"x":{0:9223372036854775808}}}',
        b'{"offsetTable":{"x":{4294967296:1}}}',
        b'{"offsetTable":{"\xff":{}}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 500 + b"1" + b"}" * 500 + b" x",
    ],
)
def test_what_is_not_a_table_of_offsets(data: bytes) -> None:
    with pytest.raises(BodyError, match=r"^ConsumerOffsetTable: "):
        decode(ConsumerOffsetTable, data)


def test_bodies_that_are_never_loose_do_not_read_much_loose_text() -> None:
    table = b'{"offsetTable":{"x":{' + b",".join(b"%d:1" % n for n in range(50_000)) + b"}}}"
    assert len(decode(ConsumerOffsetTable, table).offset_table["x"]) == 50_000
    with pytest.raises(BodyError, match="longer than"):
        decode(HeartbeatData, table)


def test_deep_members_we_do_not_know() -> None:
    deep = b'"new":' + b"[" * 400 + b"]" * 400
    assert decode(HeartbeatData, b'{"clientID":"c",' + deep + b"}").client_id == "c"
    assert decode(HeartbeatData, b'{"clientID":null,' + deep + b"}").client_id == ""


@given(kind=st.sampled_from(ALL_KINDS), data=st.binary(max_size=100))
def test_any_bytes(kind: Any, data: bytes) -> None:
    with suppress(BodyError):
        decode(kind, data)


member_names = st.sampled_from(sorted({n for kind in ALL_KINDS for n in kind.__struct_encode_fields__}))
members = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(member_names | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(kind=st.sampled_from(ALL_KINDS), value=st.dictionaries(member_names, members, max_size=4))
def test_right_names_with_wrong_values(kind: Any, value: dict[str, Any]) -> None:
    with suppress(BodyError):
        decode(kind, fastjson.dumps_pretty(value))


@given(st.data())
def test_damaged_texts(data: st.DataObject) -> None:
    text, value = data.draw(st.sampled_from(TEXTS))
    damaged = bytearray(text)
    damaged[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BodyError):
        decode(type(value), bytes(damaged))


# -- round trips ------------------------------------------------------------------------------------

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
queues = st.builds(MessageQueue, st.text(), st.text(), ints)


@given(
    st.builds(ResetOffsetBody, st.dictionaries(queues, longs))
    | st.builds(
        GetConsumerStatusBody,
        message_queue_table=st.dictionaries(queues, longs, max_size=3),
        consumer_table=st.dictionaries(st.text(), st.dictionaries(queues, longs, max_size=3), max_size=3),
    )
    | st.builds(ConsumerOffsetTable, st.dictionaries(st.text(), st.dictionaries(ints, longs)))
    | st.builds(DelayOffsetTable, st.dictionaries(ints, longs))
    | st.builds(
        BrokerData,
        cluster=st.text(),
        broker_name=st.text(),
        broker_addrs=st.dictionaries(longs, st.text(), max_size=3),
    )
    | st.builds(
        SubscriptionData,
        topic=st.text(),
        sub_string=st.text(),
        tags_set=st.sets(st.text(), max_size=3),
        code_set=st.sets(ints, max_size=3),
        sub_version=longs,
    )
    | st.builds(TopicList, topic_list=st.lists(st.text(), max_size=3), broker_addr=st.none() | st.text())
)
def test_round_trips(body: Any) -> None:
    assert decode(type(body), encode(body)) == body
    assert decode(type(body), fastjson.dumps_pretty(body)) == body


# -- REGISTER_BROKER --------------------------------------------------------------------------------

REGISTER = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigTable(
        data_version=DataVersion(counter=3, timestamp=9),
        topic_config_table={"T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8)},
    ),
    filter_server_list=["f:1"],
)

# REGISTER as RegisterBrokerBody.encode(true) of each release wrote it.
FROM_4_9_7 = bytes.fromhex(
    "78da63606090ae564ace2fcd2b492d52b232d6512ac9cc4d2d2e49cc2d50b2b2ac656060600462a1100513050b05338560"
    "4f3f771fd7f8104777a0287bb4529a95a1522c0048120fd6"
)
FROM_5_5_0 = bytes.fromhex(
    "78da636060d0a9564ace2fcd2b492d52b232d6512a2e492c490d4b2d2acecccf53b232d0512ac9cc4d050ae616285959d6"
    "3230303002b1688882898285829942b0a79fbb8f6b7c88a3bb423548923d5a29cdca502916c8640000a39a16e3"
)


@pytest.mark.parametrize("compressed", [False, True])
def test_register_round_trip(compressed: bool) -> None:
    data = register_body.encode(REGISTER, compressed=compressed)
    assert register_body.decode(data, compressed=compressed) == REGISTER


@pytest.mark.parametrize("data", [FROM_4_9_7, FROM_5_5_0], ids=["4.9.7", "5.5.0"])
def test_register_bodies_of_java(data: bytes) -> None:
    assert register_body.decode(data, compressed=True) == REGISTER


def test_the_compressed_layout_is_that_of_4_9_7() -> None:
    assert zlib.decompress(register_body.encode(REGISTER, compressed=True)) == zlib.decompress(FROM_4_9_7)


VERSION = pack(">i", 2) + b"{}"


@pytest.mark.parametrize(
    "inflated",
    [
        b"",
        pack(">i", 5) + b"{}",
        pack(">i", -1),
        VERSION,
        VERSION + pack(">i", 2**31 - 1),
        VERSION + pack(">ii", 1, 3) + b"a b",
        VERSION + pack(">ii", 1, 9) + b"t x 4 6 S",
        VERSION + pack(">ii", 1, 9) + b"t 4 4 6 \xff",
        VERSION + pack(">ii", 0, 1) + b"{",
        VERSION + pack(">ii", 0, 3) + b"[1]",
        VERSION + pack(">ii", 0, 3) + b'"\xff"',
        VERSION + pack(">ii", 0, 100_000) + b"[" * 100_000,
    ],
)
def test_broken_compressed_bodies(inflated: bytes) -> None:
    with pytest.raises(BodyError):
        register_body.decode(zlib.compress(inflated), compressed=True)


def test_no_filter_servers() -> None:
    data = zlib.compress(VERSION + pack(">ii", 0, 4) + b"null")
    assert register_body.decode(data, compressed=True) == RegisterBrokerBody()


def test_a_zip_bomb_is_refused() -> None:
    with pytest.raises(BodyError, match="more than"):
        register_body.decode(zlib.compress(bytes(register_body.MAX_INFLATED + 1)), compressed=True)


@given(data=st.binary(max_size=100), compressed=st.booleans(), deflated=st.booleans())
def test_any_register_bytes(data: bytes, compressed: bool, deflated: bool) -> None:
    with suppress(BodyError):
        register_body.decode(zlib.compress(data) if deflated else data, compressed=compressed)


def test_every_kind_is_a_struct_with_defaults() -> None:
    assert len(ALL_KINDS) > 35
    assert all(not kind.__struct_config__.forbid_unknown_fields for kind in ALL_KINDS)
    assert all(msgspec.structs.fields(kind) for kind in ALL_KINDS)
