from __future__ import annotations
import asyncio, json, shutil
from pathlib import Path
import pytest
from mqctl.server.clock import MovableClock
from mqctl.remoting.message import Message
from mqctl.store.schedule import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import SUSPEND, Client, House, running, serving
from tests.unit.server.broker.test_broker_transactions import begin, end, check, join, COMMIT

HOUR=3_600_000

@in_loop
async def test_A_shared_stored(tmp_path):
    async with serving(tmp_path, flush_disk_type="SYNC_FLUSH") as (house, client):
        acks = house.broker.acks
        one = asyncio.create_task(wait(acks))
        await asyncio.sleep(0)
        two = asyncio.create_task(wait(acks))
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        await two

async def wait(acks):
    await acks.stored()

@in_loop
async def test_B_level_without_queue(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "delayOffset.json").write_text('{"offsetTable":{1:7}}')
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        await client.sent(b"x", properties={"DELAY": "1"})
        clock.advance(5)
        await until(lambda: ("t", 0) in house.broker.store.queues and house.broker.store.queues["t", 0].max_offset == 1)

@in_loop
async def test_C_timer_progress(tmp_path):
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        now = clock.now_ms()
        await client.sent(b"far", properties={"TIMER_DELIVER_MS": str(now + HOUR)})
        p = json.loads(house.broker.delays.timers._encode())
        assert p["deliveredUntil"] <= clock.now_ms()

@in_loop
async def test_D_rollback_flag(tmp_path):
    async with serving(tmp_path) as (house, client):
        await client.send(b"a", properties={"TRAN_MSG": "true"}, f=12, j=1)
        await client.sent(b"b")
        assert (await client.pull()).bodies[-1] == b"b"
        before = (await client.pull()).bodies
        shutil.copytree(tmp_path, tmp_path.parent / "copy")
    async with running(tmp_path.parent / "copy") as house:
        after = (await house.client().pull()).bodies
    assert after == before

@in_loop
async def test_E_finish_commit(tmp_path):
    async with serving(tmp_path) as (house, client):
        one = await begin(client, b"one", key="k1")   # at log offset 0
        assert one.phys_offset == 0
        two = await begin(client, b"two", key="k2")
        assert await end(client, two, COMMIT) == 0
        (m,) = (await client.pull()).messages
        r = await client.ask(36, {"offset": m.commit_log_offset if hasattr(m,'commit_log_offset') else m.phys_offset, "group": "g", "delayLevel": 0, "maxReconsumeTimes": 16})
        assert r.code == 0, r.remark
    async with running(tmp_path) as house:
        client = house.client()
        assert await end(client, one, COMMIT) == 0
        assert (await client.pull()).bodies == [b"two", b"one"]

@pytest.mark.parametrize("p", [{"DELAY": "3"}, {"TIMER_DELAY_MS": "100000"}])
@in_loop
async def test_F_batch(tmp_path, p):
    async with serving(tmp_path) as (house, client):
        answer = await client.send_batch([Message(topic="t", body=b"a", properties=p)])
        assert answer.code != 0
        answer = await client.send_batch([Message(topic="t", body=b"a")], properties=p)
        assert answer.code != 0

@in_loop
async def test_A2_nothing_put(tmp_path):
    async with serving(tmp_path, flush_disk_type="SYNC_FLUSH") as (house, client):
        await client.sent(b"x")
        async with asyncio.timeout(3):
            await house.broker.acks.stored()
        async with asyncio.timeout(3):
            await house.broker.acks.stored()
