"""Reading a topic of which one broker stops answering on the way."""

from __future__ import annotations

import pytest

from mqctl.client.admin import Admin
from mqctl.client.admin.scanning import find_spans, read_spans
from mqctl.errors import MqError, ResponseError
from mqctl.remoting.bodies import BrokerData, QueueData, TopicRouteData
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.loop import RemotingServer
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop
from tests.unit.client.embedded import numbered, send
from tests.unit.client.fakes import FakeNamesrv


def _offset(connection: Connection, request: Command, header: None) -> Command:
    return request.reply(ext={"offset": "0" if request.code == RequestCode.GET_MIN_OFFSET else "5"})


def _refuse(connection: Connection, request: Command, header: None) -> Command:
    return request.reply(ResponseCode.SYSTEM_ERROR, remark="the disk is gone")


def failing() -> RemotingServer:
    """Says that it has messages, and does not give them."""
    offsets = dict.fromkeys((RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET), (None, _offset))
    return RemotingServer({**offsets, RequestCode.PULL_MESSAGE: (None, _refuse)})


def route(**addresses: str) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[
            BrokerData(cluster="c", broker_name=name, broker_addrs={0: address}) for name, address in addresses.items()
        ],
        queue_datas=[QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6) for name in addresses],
    )


@in_loop
async def test_what_the_others_have_is_read(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=2)
    await send(mq, "t", numbered(5))
    namesrv, server = FakeNamesrv(), failing()
    await namesrv.start()
    bad = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    namesrv.routes = {"t": route(good=mq.address, bad=bad), "worse": route(bad=bad)}
    try:
        async with Admin(namesrv.address) as admin:

            async def read(topic: str, missing: dict[str, MqError] | None) -> list[bytes]:
                spans = await find_spans(admin, topic, missing=missing)
                return [message.body async for message in read_spans(admin, spans, missing=missing)]

            missing: dict[str, MqError] = {}
            assert sorted(await read("t", missing)) == numbered(5)
            assert "the disk is gone" in missing["bad"].message
            with pytest.raises(ResponseError, match="the disk is gone"):
                await read("t", None)
            with pytest.raises(ResponseError, match="the disk is gone"):
                await read("worse", {})
    finally:
        await namesrv.stop()
        await server.stop()
