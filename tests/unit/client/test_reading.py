"""What a consumer makes of answers that no broker should give."""

from __future__ import annotations

import asyncio
import json

import pytest

from mqctl.client.engine import Engine
from mqctl.client.reading import Reader
from mqctl.client.subscriptions import subscription
from mqctl.errors import MqError
from mqctl.remoting.bodies import BrokerData, MessageQueue, QueueData, TopicRouteData
from tests.aio import in_loop
from tests.unit.client.fakes import FakeNamesrv


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
