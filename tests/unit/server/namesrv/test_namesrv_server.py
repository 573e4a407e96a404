"""A name server on a real socket, asked through the same Connection that clients use."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqctl.errors import ConfigError
from mqctl.remoting import register_body
from mqctl.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from mqctl.remoting.codes import VERSION_3_0_11, VERSION_5_5_0, RequestCode, ResponseCode
from mqctl.remoting.command import BINARY, JSON, Command
from mqctl.remoting.connection import Connection
from mqctl.server.namesrv.config import NamesrvConfig
from mqctl.server.namesrv.server import NameServer

BROKER: dict[str, Any] = {"brokerName": "a", "brokerAddr": "10.0.0.1:10911", "clusterName": "c", "brokerId": "0"}
REGISTER: dict[str, Any] = {**BROKER, "haServerAddr": "10.0.0.1:10912"}


class Peer:
    """One connection to the server, and a short way to ask."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def ask(self, code: int, body: bytes = b"", version: int = 407, codec: int = JSON, **ext: Any) -> Command:
        request = Command(code, ext=ext, body=body, version=version, codec=codec)
        return await self.connection.request(request, 5)

    async def ok(self, code: int, body: bytes = b"", **ext: Any) -> Command:
        answer = await self.ask(code, body, **ext)
        assert answer.code == 0, (answer.code, answer.remark)
        return answer

    async def json(self, code: int, **ext: Any) -> Any:
        return json.loads((await self.ok(code, **ext)).body)

    async def route(self, topic: str) -> int:
        return (await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)).code


class House:
    """A running name server in a directory of its own, with a clock one can turn."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.path = path
        self.now = 0.0
        self.config = NamesrvConfig(
            listen_port=0,
            bind_address="127.0.0.1",
            kv_config_path=str(path / "kvConfig.json"),
            config_store_path=str(path / "namesrv.properties"),
            **config,
        )
        self.server = NameServer(self.config, clock=lambda: self.now)

    async def connect(self) -> Peer:
        loop = asyncio.get_running_loop()
        factory = lambda: Connection(lambda *_: None)  # noqa: E731
        _, protocol = await loop.create_connection(factory, "127.0.0.1", self.server.port)
        return Peer(protocol)


@asynccontextmanager
async def running(path: Path, **config: Any) -> AsyncIterator[House]:
    house = House(path, **config)
    await house.server.start()
    try:
        yield house
    finally:
        await house.server.stop()


def play(scene: Callable[[House], Awaitable[None]], path: Path, **config: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(30), running(path, **config) as house:
            await scene(house)

    asyncio.run(run())


def registration(*topics: str, version: int = 1, compressed: bool = False) -> bytes:
    table = TopicConfigTable(
        data_version=DataVersion(counter=version, timestamp=version),
        topic_config_table={name: TopicConfig(topic_name=name) for name in topics},
    )
    return register_body.encode(RegisterBrokerBody(topic_config_serialize_wrapper=table), compressed=compressed)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.005)


# -- registration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [JSON, BINARY])
def test_register_and_find_the_route(tmp_path: Path, codec: int) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        answer = await peer.ask(RequestCode.REGISTER_BROKER, registration("t"), codec=codec, **REGISTER)
        assert (answer.code, answer.fields(), answer.body, answer.codec) == (0, {}, b"", codec)
        route = await peer.json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")  # strict JSON
        assert route == {
            "brokerDatas": [{"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "a", "cluster": "c"}],
            "filterServerTable": {},
            "queueDatas": [
                {"brokerName": "a", "perm": 6, "readQueueNums": 16, "topicSysFlag": 0, "writeQueueNums": 16}
            ],
        }
        missing = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="u")
        assert (missing.code, missing.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no route for topic u")

    play(scene, tmp_path)


def test_a_slave_is_told_its_master_and_everybody_the_ordered_topics(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        await peer.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        await peer.ok(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="t", value="a:4")
        slave = {**REGISTER, "brokerId": "1", "brokerAddr": "10.0.0.2:10911"}
        answer = await peer.ok(RequestCode.REGISTER_BROKER, registration(), **slave)
        assert answer.fields() == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
        assert json.loads(answer.body) == {"table": {"t": "a:4"}}

    play(scene, tmp_path)


@pytest.mark.parametrize("version", [407, VERSION_5_5_0])
@pytest.mark.parametrize("announced", ["true", "false"])
def test_compressed_registration_whether_announced_or_not(tmp_path: Path, version: int, announced: str) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        body = registration("t", compressed=True)
        crc = str(zlib.crc32(body) & 0x7FFFFFFF)
        ext = {**REGISTER, "compressed": announced, "bodyCrc32": crc}
        await peer.ok(RequestCode.REGISTER_BROKER, body, version=version, **ext)
        assert await peer.route("t") == 0

    play(scene, tmp_path)


def test_old_brokers_send_the_bare_topic_table(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        body = b'{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{"t":{"topicName":"t"}}}'
        await peer.ok(RequestCode.REGISTER_BROKER, body, version=VERSION_3_0_11 - 1, **REGISTER)
        assert await peer.route("t") == 0

    play(scene, tmp_path)


def test_5x_brokers_bring_more_than_we_know(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        body = json.dumps(
            {
                "filterServerList": [],
                "topicConfigSerializeWrapper": {
                    "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1},
                    "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1},
                    "topicConfigTable": {"t": {"topicName": "t", "attributes": {}, "order": False}},
                    "topicQueueMappingDetailMap": {},
                    "topicQueueMappingInfoMap": {},
                },
            }
        ).encode()
        ext = {**REGISTER, "enableActingMaster": "true", "heartbeatTimeoutMillis": "10000", "zoneName": "z"}
        await peer.ok(RequestCode.REGISTER_BROKER, body, version=VERSION_5_5_0, **ext)
        await peer.ok(RequestCode.BROKER_HEARTBEAT, clusterName="c", brokerName="a", brokerAddr=REGISTER["brokerAddr"])
        single = b'{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":8,"writeQueueNums":8}]}'
        await peer.ok(RequestCode.REGISTER_TOPIC_IN_NAMESRV, single, topic="single")
        assert await peer.route("single") == 0
        stranger = await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, single.replace(b'"a"', b'"x"'), topic="s")
        assert stranger.code == ResponseCode.SYSTEM_ERROR
        members = await peer.json(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="c", brokerName="a")
        assert members == {
            "brokerMemberGroup": {"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "a", "cluster": "c"}
        }

    play(scene, tmp_path)


def test_only_complete_registrations_of_4x_brokers_remove_topics(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()

        async def after(*topics: str, version: int, release: int = 407) -> list[str]:
            body = registration(*topics, version=version)
            await peer.ok(RequestCode.REGISTER_BROKER, body, version=release, **REGISTER)
            names: list[str] = (await peer.json(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))["topicList"]
            return names

        everything = ["SELF_TEST_TOPIC", "t", "u"]
        assert await after(*everything, version=1) == everything
        assert await after("t", version=2) == everything
        assert await after("SELF_TEST_TOPIC", "t", version=3, release=VERSION_5_5_0) == everything
        assert await after("SELF_TEST_TOPIC", "t", version=4) == ["SELF_TEST_TOPIC", "t"]

    play(scene, tmp_path)


def test_a_wrong_crc_is_refused(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        answer = await peer.ask(RequestCode.REGISTER_BROKER, registration("t"), bodyCrc32="5", **REGISTER)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "CRC32" in (answer.remark or "")
        assert await peer.route("t") == ResponseCode.TOPIC_NOT_EXIST

    play(scene, tmp_path)


def test_data_version(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        mine = b'{"counter":1,"timestamp":1}'
        unknown = await peer.ok(RequestCode.QUERY_DATA_VERSION, mine, **BROKER)
        assert (unknown.fields(), unknown.body) == ({"changed": "true"}, b"")
        await peer.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        same = await peer.ok(RequestCode.QUERY_DATA_VERSION, mine, **BROKER)
        assert (same.fields(), same.body) == ({"changed": "false"}, mine)
        other = await peer.ok(RequestCode.QUERY_DATA_VERSION, b'{"counter":2,"timestamp":1}', **BROKER)
        assert (other.fields(), other.body) == ({"changed": "true"}, mine)
        empty = await peer.ask(RequestCode.QUERY_DATA_VERSION, **BROKER)
        assert empty.code == ResponseCode.SYSTEM_ERROR

    play(scene, tmp_path)


# -- liveness -------------------------------------------------------------------------------------------


def test_a_closed_connection_drops_its_broker_but_a_replaced_one_does_not(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        client, first, second = await house.connect(), await house.connect(), await house.connect()
        await first.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        await second.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        first.connection.close()
        await until(lambda: _is(len(house.server._server.connections) == 2))
        assert await client.route("t") == 0
        second.connection.abort()
        await until(lambda: _gone(client, "t"))
        assert await client.json(RequestCode.GET_BROKER_CLUSTER_INFO) == {"brokerAddrTable": {}, "clusterAddrTable": {}}

    play(scene, tmp_path)


def test_a_silent_broker_is_dropped_and_its_connection_closed(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        client, broker = await house.connect(), await house.connect()
        ext = {**REGISTER, "heartbeatTimeoutMillis": "10000"}
        await broker.ok(RequestCode.REGISTER_BROKER, registration("t"), **ext)
        house.now = 11.0
        await until(lambda: _gone(client, "t"))
        await until(lambda: _is(not broker.connection.is_open))
        assert client.connection.is_open

    play(scene, tmp_path, scan_not_active_broker_interval=5)


def test_unregister(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        await peer.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        await peer.ok(RequestCode.UNREGISTER_BROKER, **BROKER)
        await peer.ok(RequestCode.UNREGISTER_BROKER, **BROKER)
        assert await peer.route("t") == ResponseCode.TOPIC_NOT_EXIST

    play(scene, tmp_path)


async def _gone(peer: Peer, topic: str) -> bool:
    return await peer.route(topic) == ResponseCode.TOPIC_NOT_EXIST


async def _is(value: bool) -> bool:
    return value


# -- operators ------------------------------------------------------------------------------------------


def test_lists_and_permissions(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        await peer.ok(RequestCode.REGISTER_BROKER, registration("t", "u"), **REGISTER)
        assert await peer.json(RequestCode.GET_BROKER_CLUSTER_INFO) == {
            "brokerAddrTable": {"a": {"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "a", "cluster": "c"}},
            "clusterAddrTable": {"c": ["a"]},
        }
        assert await peer.json(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c") == {"topicList": ["t", "u"]}
        assert await peer.json(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="x") == {"topicList": []}
        system = await peer.json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        assert system == {"brokerAddr": "10.0.0.1:10911", "topicList": ["a", "c"]}
        for code in (
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ):
            assert await peer.json(code) == {"topicList": []}
        wiped = await peer.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="a")
        assert wiped.fields() == {"wipeTopicCount": "2"}
        added = await peer.ok(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="a")
        assert added.fields() == {"addTopicCount": "2"}
        await peer.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="t")
        await peer.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="u", clusterName="x")
        assert await peer.json(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"topicList": ["u"]}

    play(scene, tmp_path)


def test_kv_requests_and_a_restart(tmp_path: Path) -> None:
    async def before(house: House) -> None:
        peer = await house.connect()
        item: dict[str, Any] = {"namespace": "ns", "key": "k"}
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, **item)).code == ResponseCode.QUERY_NOT_FOUND
        absent = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns")
        assert absent.code == ResponseCode.QUERY_NOT_FOUND
        await peer.ok(RequestCode.PUT_KV_CONFIG, value="v", **item)
        await peer.ok(RequestCode.PUT_KV_CONFIG, namespace="ns", key="gone", value="v")
        await peer.ok(RequestCode.DELETE_KV_CONFIG, namespace="ns", key="gone")
        await peer.ok(RequestCode.DELETE_KV_CONFIG, namespace="never", key="there")

    async def after(house: House) -> None:
        peer = await house.connect()
        answer = await peer.ok(RequestCode.GET_KV_CONFIG, namespace="ns", key="k")
        assert answer.fields() == {"value": "v"}
        assert await peer.json(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns") == {"table": {"k": "v"}}

    play(before, tmp_path)
    play(after, tmp_path)


def test_order_configuration_comes_with_the_route_when_enabled(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        await peer.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        await peer.ok(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="t", value="a:4")
        assert "orderTopicConf" not in await peer.json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
        await peer.ok(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=TRUE\n")
        route = await peer.json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
        assert route["orderTopicConf"] == "a:4"

    play(scene, tmp_path)


def test_configuration_is_read_changed_and_kept(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        body = (await peer.ok(RequestCode.GET_NAMESRV_CONFIG)).body.decode()
        assert body.splitlines()[:2] == ["listenPort=0", "bindAddress=127.0.0.1"]
        await peer.ok(RequestCode.UPDATE_NAMESRV_CONFIG)
        await peer.ok(RequestCode.UPDATE_NAMESRV_CONFIG, b"unknownKey=1")
        await peer.ok(RequestCode.UPDATE_NAMESRV_CONFIG, b"scanNotActiveBrokerInterval=7000")
        assert "scanNotActiveBrokerInterval=7000\n" in (tmp_path / "namesrv.properties").read_text()
        for text, code in [
            (b"kvConfigPath=/tmp/x", ResponseCode.NO_PERMISSION),
            (b"configStorePath=/tmp/x\norderMessageEnable=true", ResponseCode.NO_PERMISSION),
            (b"bindAddress=1.2.3.4", ResponseCode.NO_PERMISSION),
            (b"k\\u0076ConfigPath=/tmp/x", ResponseCode.NO_PERMISSION),
            (b"orderMessageEnable=maybe", ResponseCode.SYSTEM_ERROR),
            (b"scanNotActiveBrokerInterval=0", ResponseCode.SYSTEM_ERROR),
            (b"a=\\uXYZ", ResponseCode.SYSTEM_ERROR),
            (b"a=b\n" * 100_000, ResponseCode.SYSTEM_ERROR),
        ]:
            assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, text)).code == code, text[:40]
        body = (await peer.ok(RequestCode.GET_NAMESRV_CONFIG)).body.decode()
        assert "orderMessageEnable=false\nscanNotActiveBrokerInterval=7000\n" in body

    play(scene, tmp_path)


# -- bad requests ---------------------------------------------------------------------------------------

WITH_FIELDS = [
    RequestCode.PUT_KV_CONFIG,
    RequestCode.GET_KV_CONFIG,
    RequestCode.DELETE_KV_CONFIG,
    RequestCode.GET_KVLIST_BY_NAMESPACE,
    RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.GET_TOPICS_BY_CLUSTER,
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.GET_BROKER_MEMBER_GROUP,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV,
]
ALL_FIELDS = ["namespace", "key", "value", "topic", "cluster", "brokerName", "brokerAddr", "clusterName", "brokerId"]
BAD_FIELDS: list[dict[str, Any]] = [{}, *(dict.fromkeys(ALL_FIELDS, text) for text in ("", "x" * 100_000))]


def test_absent_and_impossible_fields_are_answered_with_a_reason(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        for code in WITH_FIELDS:
            for ext in BAD_FIELDS:
                answer = await peer.ask(code, **ext)
                assert answer.code == ResponseCode.SYSTEM_ERROR, (code, answer.code)
                assert answer.remark and len(answer.remark) < 300, code
        assert await peer.json(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"topicList": []}

    play(scene, tmp_path)


@pytest.mark.parametrize(
    "ext",
    [
        {"brokerId": "-1"},
        {"brokerId": str(2**63)},
        {"brokerId": "one"},
        {"compressed": "perhaps"},
        {"bodyCrc32": "1" * 400},
        {"heartbeatTimeoutMillis": "soon"},
    ],
    ids=str,
)
def test_registration_with_wrong_types(tmp_path: Path, ext: dict[str, str]) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        answer = await peer.ask(RequestCode.REGISTER_BROKER, registration("t"), **{**REGISTER, **ext})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "REGISTER_BROKER" in (answer.remark or "")

    play(scene, tmp_path)


BAD_BODIES = [
    b"\x00",
    b"[]",
    b"{",
    b"x\x9c not zlib",
    b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"perm":99999999999}}}}',
    b'{"topicConfigSerializeWrapper":{"dataVersion":5}}',
    b"[" * 100_000,
    zlib.compress(b"\x7f\xff\xff\xff"),
    zlib.compress(bytes(80 * 1024 * 1024), 9),
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
@pytest.mark.parametrize("version", [36, 407, 513])
def test_bodies_that_are_not_registrations(tmp_path: Path, body: bytes, version: int) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        answer = await peer.ask(RequestCode.REGISTER_BROKER, body, version=version, **REGISTER)
        # To a broker before 3.0.11 the outer member is one of many it does not know.
        if version >= VERSION_3_0_11 or not body.startswith(b'{"topic'):
            assert answer.code == ResponseCode.SYSTEM_ERROR
        assert await peer.route("t") == ResponseCode.TOPIC_NOT_EXIST

    play(scene, tmp_path)


def test_unknown_codes_are_answered_at_once(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.CONTROLLER_GET_METADATA_INFO, 77777, -1):
            assert (await peer.ask(code)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    play(scene, tmp_path)


def test_oneway_registration_is_not_answered(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        peer = await house.connect()
        peer.connection.oneway(Command(RequestCode.REGISTER_BROKER, ext=dict(REGISTER), body=registration("t")))
        assert await peer.route("t") == 0

    play(scene, tmp_path)


# -- start and stop -------------------------------------------------------------------------------------


def test_a_taken_port_is_a_configuration_error(tmp_path: Path) -> None:
    async def scene(house: House) -> None:
        config = msgspec.structs.replace(house.config, listen_port=house.server.port)
        with pytest.raises(ConfigError, match="already in use"):
            await NameServer(config).start()

    play(scene, tmp_path)


def test_stopping_closes_connections(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as house:
            peer = await house.connect()
            await peer.ok(RequestCode.REGISTER_BROKER, registration("t"), **REGISTER)
        await until(lambda: _is(not peer.connection.is_open))

    asyncio.run(run())
