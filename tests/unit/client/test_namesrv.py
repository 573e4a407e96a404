"""Several name servers, of which some hang or are gone."""

from __future__ import annotations

import asyncio

import pytest

from mqctl.client import Message, Producer
from mqctl.client.namesrv import NameServers
from mqctl.errors import ConnectionFailed, RequestTimeout
from mqctl.remoting.pool import ConnectionPool
from tests.aio import in_loop
from tests.unit.client.fakes import FakeNamesrv, cluster

NOBODY = "127.0.0.1:1"


@in_loop
async def test_the_first_send_finds_the_server_behind_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NameServers.__init__.__kwdefaults__, "timeout", 1.0)
    monkeypatch.setattr("mqctl.client.namesrv.random.randrange", lambda count: 0)
    hanging = FakeNamesrv(silent=True)
    await hanging.start()
    async with cluster() as (namesrv, (broker,)):
        try:
            async with Producer("g", [hanging.address, namesrv.address], timeout=1.0) as producer:
                await producer.send(Message("t", b"x"))
        finally:
            await hanging.stop()
    assert (hanging.asked, broker.bodies) == (["t"], [b"x"])


@in_loop
async def test_questions_at_the_same_time_find_the_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqctl.client.namesrv.random.randrange", lambda count: 0)
    async with cluster() as (namesrv, (broker,)):
        for topic in ("t1", "t2", "t3"):
            namesrv.route(topic, broker)
        async with Producer("g", [NOBODY, namesrv.address]) as producer:
            await asyncio.gather(*(producer.send(Message(topic, b"x")) for topic in ("t", "t1", "t2", "t3")))
            assert producer._engine.name_servers._current == 1
    assert broker.bodies == [b"x"] * 4


@in_loop
async def test_none_that_answers() -> None:
    hanging = FakeNamesrv(silent=True)
    await hanging.start()
    pool = ConnectionPool()
    try:
        with pytest.raises((ConnectionFailed, RequestTimeout)) as refused:
            await NameServers(pool, [hanging.address, NOBODY], timeout=0.2).topic_route("t")
    finally:
        await pool.close()
        await hanging.stop()
    assert NOBODY in refused.value.message
    assert hanging.address in refused.value.message
