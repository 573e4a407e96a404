"""Which broker a consumer reads from, and what it makes of answers that none should give."""

from __future__ import annotations

import asyncio
import json

import pytest

from mqctl.client.engine import Engine
from mqctl.client.reading import FLAG_COMMIT_OFFSET, Reader
from mqctl.client.subscriptions import subscription
from mqctl.errors import ConnectionFailed, MqError
from mqctl.remoting.bodies import BrokerData, MessageQueue, QueueData, TopicRouteData
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from tests.aio import in_loop
from tests.unit.client.fakes import FakeBroker, FakeNamesrv, cluster


@pytest.mark.parametrize("fields", [[1], {"nextBeginOffset": "soon"}])
@in_loop
async def test_an_answer_that_cannot_be_read_is_an_error_of_ours(fields: object) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                length = int.from_bytes(frame[1:4], "big")
                opaque = json.loads(frame[4 : 4 + length])["opaque"]
                header = json.dumps({"code": 0, "flag": 1, "opaque": opaque, "extFields": fields}).encode()
                writer.write((len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    namesrv = FakeNamesrv()
    await namesrv.start()
    namesrv.routes["t"] = TopicRouteData(
        broker_datas=[BrokerData(broker_name="broker-a", broker_addrs={0: f"{host}:{port}"})],
        queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)],
    )
    async with server, Engine(namesrv.address) as engine:
        await engine.routes.find("t")
        reader = Reader(engine, "g", states_filter=False)
        with pytest.raises(MqError):
            await reader.pull(MessageQueue("t", "broker-a", 0), 0, subscription("t"), count=1, commit=None)
    await namesrv.stop()


@in_loop
async def test_a_slave_is_read_while_the_master_says_so() -> None:
    asked: list[tuple[str, bool]] = []  # who, and whether a position came along
    commits: list[str] = []

    def serve(broker: FakeBroker, role: str) -> None:
        def pull(connection: Connection, request: Command, header: None) -> Command:
            asked.append((role, bool(int(request.fields()["sysFlag"]) & FLAG_COMMIT_OFFSET)))
            return request.reply(ResponseCode.PULL_NOT_FOUND, ext={"nextBeginOffset": "0", "suggestWhichBrokerId": "1"})

        def commit(connection: Connection, request: Command, header: None) -> Command:
            commits.append(role)
            return request.reply()

        broker.server._handlers |= {
            RequestCode.PULL_MESSAGE.value: (None, pull),
            RequestCode.UPDATE_CONSUMER_OFFSET.value: (None, commit),
        }

    async with cluster("broker-a", "broker-b") as (namesrv, (master, slave)):
        serve(master, "master")
        serve(slave, "slave")
        (data, _), queues = namesrv.routes["t"].broker_datas, namesrv.routes["t"].queue_datas[:1]
        data.broker_addrs[1] = slave.address
        namesrv.routes["t"] = TopicRouteData(broker_datas=[data], queue_datas=queues)
        queue = MessageQueue("t", "broker-a", 0)
        async with Engine(namesrv.address) as engine:
            await engine.routes.find("t")
            reader = Reader(engine, "g", states_filter=False)

            async def pull() -> None:
                await reader.pull(queue, 0, subscription("t"), count=1, commit=5)

            await pull()
            await pull()
            await reader.commit(queue, 5)
            await slave.stop()
            with pytest.raises(ConnectionFailed):
                await pull()
            await pull()
        assert asked == [("master", True), ("slave", False), ("master", True)]
        assert commits == ["master"]
