"""Messages delayed by a level: where they wait, when they come, what they look like then."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mqctl.errors import StoreError
from mqctl.names import SCHEDULE_TOPIC
from mqctl.remoting.message import ReceivedMessage
from mqctl.server.clock import MovableClock
from mqctl.store.record import pack_host
from mqctl.store.store import NewMessage
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import SUSPEND, Client, House, running, serving

GET_ALL_DELAY_OFFSET = 45
GET_RUNTIME_INFO = 28


async def waiting(client: Client, level: int) -> list[ReceivedMessage]:
    return (await client.pull(topic=SCHEDULE_TOPIC, queue_id=level - 1)).messages


async def arrived(client: Client, count: int, queue_id: int = 0, topic: str = "t") -> list[ReceivedMessage]:
    """The first messages of a queue, as soon as there are so many."""
    found: list[ReceivedMessage] = []
    while len(found) < count:
        found += (await client.pull(len(found), topic=topic, queue_id=queue_id, flags=SUSPEND)).messages
    return found


async def delay_offsets(client: Client) -> dict[int, int]:
    table = (await client.json(GET_ALL_DELAY_OFFSET))["offsetTable"]
    return {int(level): queue_offset for level, queue_offset in table.items()}


@in_loop
async def test_a_delayed_message_waits_and_then_comes_as_it_was(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        properties = {"TAGS": "a", "KEYS": "k1 k2", "own": "x", "DELAY": "17", "UNIQ_KEY": "U1", "REAL_TOPIC": "lie"}
        answer = await client.send(b"later", properties=properties, h=7)
        assert (answer.code, answer.fields()["queueId"], answer.fields()["queueOffset"]) == (0, "0", "0")
        (copy,) = await waiting(client, 17)
        assert (copy.properties["REAL_TOPIC"], copy.properties["REAL_QID"], copy.properties["DELAY"]) == (
            "t",
            "0",
            "17",
        )
        assert answer.fields()["msgId"] == copy.offset_msg_id
        queue = house.broker.store.queues[SCHEDULE_TOPIC, 16]
        entry = queue.entry(0)
        assert entry is not None
        assert entry[2] == copy.store_timestamp + 3_600_000
        clock.advance(3590)
        assert await client.max_offset() == 0
        clock.advance(20)
        (message,) = await arrived(client, 1)
        assert (message.body, message.tags, message.keys, message.flag) == (b"later", "a", ["k1", "k2"], 7)
        assert message.properties == copy.properties
        assert message.born_timestamp == 1_700_000_000_000
        assert message.store_timestamp >= entry[2]
        assert (await client.pull(tags="a")).bodies == [b"later"]
        assert (await client.pull(tags="b")).bodies == []
        await until(lambda: house.broker.delays.levels.offsets() == {17: 1})


@pytest.mark.parametrize(("level", "queue_id"), [("1", 0), ("18", 17), ("19", 17), ("2147483647", 17), ("+2", 1)])
@in_loop
async def test_which_queue_a_level_is(tmp_path: Path, level: str, queue_id: int) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent(properties={"DELAY": level})
        (message,) = await waiting(client, queue_id + 1)
        assert message.properties["DELAY"] == str(queue_id + 1)


@pytest.mark.parametrize("level", ["0", "-1", "-2147483648"])
@in_loop
async def test_levels_that_are_none(tmp_path: Path, level: str) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent(b"now", properties={"DELAY": level})
        assert (await client.pull()).bodies == [b"now"]


@pytest.mark.parametrize("level", ["x", "1.0", "2147483648", "1 ", "9" * 5000])
@in_loop
async def test_levels_that_are_no_numbers(tmp_path: Path, level: str) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.send(properties={"DELAY": level})
        assert answer.code == 13
        assert "DELAY" in (answer.remark or "")
        assert await client.max_offset() == 0


@in_loop
async def test_properties_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.send(properties={"DELAY": "1", "x": "y" * 32_720})
        assert answer.code == 13
        assert "properties" in (answer.remark or "")


@in_loop
async def test_own_levels(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock, message_delay_level="2d 1h") as (_, client):
        await client.sent(b"two days", properties={"DELAY": "1"})
        await client.sent(b"hour", properties={"DELAY": "2"})
        await client.sent(b"hour too", properties={"DELAY": "3"})
        clock.advance(3601)
        assert [each.body for each in await arrived(client, 2)] == [b"hour", b"hour too"]
        clock.advance(47 * 3600)
        assert (await arrived(client, 3))[2].body == b"two days"


@in_loop
async def test_in_the_order_of_their_times(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        for level in ("5", "3", "4", "1"):
            await client.sent(level.encode(), properties={"DELAY": level})
        for seconds, level in ((1.1, b"1"), (9, b"3"), (20, b"4"), (30, b"5")):
            offset = await client.max_offset()
            clock.advance(seconds)
            assert (await arrived(client, offset + 1))[-1].body == level


@in_loop
async def test_many_of_one_level_keep_their_order_and_come_once(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        sends = [client.sent(b"%d" % number, properties={"DELAY": "17"}) for number in range(1000)]
        await asyncio.gather(*sends)
        clock.advance(3601)
        await until(lambda: house.broker.delays.levels.offsets() == {17: 1000})
        found = await arrived(client, 1000)
        assert [each.body for each in found] == [b"%d" % number for number in range(1000)]
        assert await client.max_offset() == 1000
        assert await delay_offsets(client) == {17: 1000}
        figures = (await client.json(GET_RUNTIME_INFO))["table"]
        assert figures["scheduleMessageOffset_17"] == "1000,1000"


@in_loop
async def test_a_stop_forgets_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        await client.sent(b"1", properties={"DELAY": "3"})
        await client.sent(b"2", properties={"DELAY": "17"})
        clock.advance(11)
        await arrived(client, 1)
    assert json.loads((tmp_path / "config" / "delayOffset.json").read_text()) == {"offsetTable": {"3": 1}}
    async with running(tmp_path, clock=clock) as house:
        client = house.client()
        assert await delay_offsets(client) == {3: 1}
        clock.advance(3600)
        assert [each.body for each in await arrived(client, 2)] == [b"1", b"2"]
        assert await client.max_offset() == 2


@in_loop
async def test_what_became_due_while_the_broker_was_down_comes_at_its_start(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        await client.sent(b"1", properties={"DELAY": "17"})
    clock.advance(4000)
    async with running(tmp_path, clock=clock) as house:
        assert [each.body for each in await arrived(house.client(), 1)] == [b"1"]


@pytest.mark.parametrize("sync", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@in_loop
async def test_a_delivery_that_the_disk_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock, flush_disk_type=sync) as (house, client):
        await client.sent(b"1", properties={"DELAY": "17"})
        refusals = 0
        write = house.broker.store.log.write

        def refuse() -> int:
            nonlocal refusals
            refusals += 1
            if refusals < 3:
                house.broker.store.log.open_at(house.broker.store.log.end)
                raise StoreError("no room")
            return write()

        monkeypatch.setattr(house.broker.store.log, "write", refuse)
        clock.advance(3601)
        for _ in range(3):
            await until(lambda seen=refusals: refusals > seen or house.broker.delays.levels.offsets(), 5)
            clock.advance(2)
        assert [each.body for each in await arrived(client, 1)] == [b"1"]
        assert refusals >= 3
        assert await client.max_offset() == 1


@in_loop
async def test_a_message_that_cannot_be_read_now_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        await client.sent(b"1", properties={"DELAY": "17"})
        log = house.broker.store.log
        read, tried = log.read, asyncio.Event()

        def refuse(phys_offset: int, size: int) -> bytes | None:
            if not tried.is_set():
                tried.set()
                raise StoreError("input/output error")
            return read(phys_offset, size)

        monkeypatch.setattr(log, "read", refuse)
        clock.advance(3601)
        await tried.wait()
        clock.advance(2)
        assert [each.body for each in await arrived(client, 1)] == [b"1"]


@in_loop
async def test_a_full_disk_only_puts_deliveries_off(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock, clean_resource_interval=10**9) as (house, client):
        await client.sent(b"1", properties={"DELAY": "17"})
        house.broker.store.refusing = "the disk is full"
        clock.advance(3601)
        await asyncio.sleep(0.01)
        assert await client.max_offset() == 0
        house.broker.store.refusing = ""
        clock.advance(2)
        await arrived(client, 1)


def put_waiting(house: House, properties: bytes, **fields: Any) -> None:
    message = NewMessage(SCHEDULE_TOPIC, 0, b"bad", properties, 1, 0, 0, 0, pack_host("127.0.0.1", 1), **fields)
    house.broker.store.put(message)
    house.broker.acks.schedule()


@pytest.mark.parametrize(
    "properties",
    [
        b"DELAY\x011",
        b"REAL_TOPIC\x01t",
        b"REAL_TOPIC\x01t\x02REAL_QID\x01-1",
        b"REAL_TOPIC\x01t\x02REAL_QID\x01x",
        b"REAL_TOPIC\x01t\x02REAL_QID\x0199999999999",
        b"REAL_TOPIC\x01../../etc\x02REAL_QID\x010",
        b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010",
        b"REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x010",
    ],
)
@in_loop
async def test_what_cannot_be_delivered_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, properties: bytes
) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        before = set(house.broker.store.queues)
        put_waiting(house, properties)
        await client.sent(b"good", properties={"DELAY": "1"})
        clock.advance(2)
        assert [each.body for each in await arrived(client, 1)] == [b"good"]
        await until(lambda: house.broker.delays.levels.offsets() == {1: 2})
        assert "is not delivered" in caplog.text
        assert set(house.broker.store.queues) == {*before, ("t", 0), (SCHEDULE_TOPIC, 0)}


@in_loop
async def test_offsets_outside_the_queue_are_corrected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        await client.sent(b"1", properties={"DELAY": "17"})
    (tmp_path / "config" / "delayOffset.json").write_text('{"offsetTable":{17:99,30:4}}')
    async with running(tmp_path, clock=clock) as house:
        client = house.client()
        assert await delay_offsets(client) == {17: 1, 30: 4}
        assert "corrected" in caplog.text
        saved = json.loads((tmp_path / "config" / "delayOffset.json").read_text())
        assert saved == {"offsetTable": {"17": 1, "30": 4}}, "what takes the lost places must survive the next kill"


@in_loop
async def test_a_queue_that_is_lost_wholly_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "delayOffset.json").write_text('{"offsetTable":{3:7}}')
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        await client.sent(b"1", properties={"DELAY": "3"})
        clock.advance(11)
        assert [each.body for each in await arrived(client, 1)] == [b"1"]


@in_loop
async def test_a_message_that_stands_for_a_lost_one_comes_once(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        for body in (b"lost", b"1"):
            await client.sent(body, properties={"DELAY": "3"})
        queue = house.broker.store.queues[SCHEDULE_TOPIC, 2]
        entry = queue.entry(1)
        assert entry is not None
        queue.truncate(0)
        queue.skip_to(2, *entry)
        await client.sent(b"2", properties={"DELAY": "3"})
        clock.advance(11)
        assert [each.body for each in await arrived(client, 2)] == [b"1", b"2"]


@in_loop
async def test_a_clock_that_was_set_back_far_delays_nothing_for_long(tmp_path: Path) -> None:
    """Apache's broker delivers such messages at once, too."""
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        clock.advance(1000)
        await client.sent(b"1", properties={"DELAY": "3"})
        clock.advance(-1000)
        await arrived(client, 1)


@in_loop
async def test_a_topic_that_only_the_broker_writes(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for topic in (SCHEDULE_TOPIC, "rmq_sys_wheel_timer"):
            assert (await client.send(topic=topic)).code == 16
