"""Messages with a delivery time of their own, and taking them back."""

from __future__ import annotations

import asyncio
import base64
import shutil
import struct
from pathlib import Path

import pytest

from mqctl.names import TIMER_TOPIC
from mqctl.remoting.command import Command
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.recallhandle import RecallHandle
from mqctl.server.clock import MovableClock
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import SUSPEND, Client, House, running, serving

RECALL_MESSAGE = 370
HOUR_MS = 3_600_000


async def arrived(client: Client, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while len(found) < count:
        found += (await client.pull(len(found), flags=SUSPEND)).messages
    return found


async def send_at(client: Client, due_ms: int, body: bytes, **more: str) -> str:
    """The handle to take it back with."""
    properties = {"TIMER_DELIVER_MS": str(due_ms), "UNIQ_KEY": f"K-{body.decode()}", **more}
    answer = await client.send(body, properties=properties)
    assert answer.code == 0, answer.remark
    return answer.fields()["recallHandle"]


async def recall(client: Client, handle: str, topic: str = "t") -> Command:
    return await client.ask(RECALL_MESSAGE, {"topic": topic, "recallHandle": handle, "producerGroup": "p"})


def idle(house: House) -> bool:
    return house.broker.delays.timers.pending == 0


@pytest.mark.parametrize(
    "wish", [lambda now: {"TIMER_DELIVER_MS": str(now + HOUR_MS)}, lambda now: {"TIMER_DELAY_MS": str(HOUR_MS)},
             lambda now: {"TIMER_DELAY_SEC": "3600"}]
)  # fmt: skip
@in_loop
async def test_a_message_comes_at_its_time(tmp_path: Path, wish) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        now = clock.now_ms()
        properties = {"TAGS": "a", "UNIQ_KEY": "K", **wish(now)}
        answer = await client.send(b"later", properties=properties)
        (copy,) = (await client.pull(topic=TIMER_TOPIC)).messages
        assert answer.fields()["msgId"] == copy.offset_msg_id
        assert [copy.properties[name] for name in ("REAL_TOPIC", "REAL_QID")] == ["t", "0"]
        due_ms = int(copy.properties["TIMER_OUT_MS"])
        assert 0 <= due_ms - now - HOUR_MS < 1000
        version, topic, broker, time, key = base64.urlsafe_b64decode(answer.fields()["recallHandle"]).split()
        assert (version, topic, broker, int(time), key) == (b"v1", b"t", b"broker-a", due_ms, b"K")
        clock.advance(3590)
        assert await client.max_offset() == 0
        clock.advance(20)
        (message,) = await arrived(client, 1)
        assert (message.body, message.tags, message.properties) == (b"later", "a", copy.properties)
        assert message.store_timestamp >= due_ms
        assert (await client.pull(tags="a")).bodies == [b"later"]


@in_loop
async def test_in_the_order_of_their_times(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        now = clock.now_ms()
        for seconds in (500, 300, 400, 100, 200, 100):
            await send_at(client, now + seconds * 1000, b"%d" % seconds)
        clock.advance(250)
        assert [each.body for each in await arrived(client, 3)] == [b"100", b"100", b"200"]
        await send_at(client, now + 260_000, b"260")  # becomes the first
        clock.advance(300)
        assert [each.body for each in await arrived(client, 7)][3:] == [b"260", b"300", b"400", b"500"]
        await until(lambda: idle(house))


@pytest.mark.parametrize("wish", [{"TIMER_DELIVER_MS": "5"}, {"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "-9"}])
@in_loop
async def test_a_time_that_is_over(tmp_path: Path, wish: dict[str, str]) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.send(b"now", properties={"UNIQ_KEY": "K", **wish})
        assert "recallHandle" not in answer.fields()
        assert (await client.pull()).bodies == [b"now"]


@pytest.mark.parametrize(
    "wish",
    [
        {"TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_SEC": "1.5"},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "9" * 20},
    ],
)
@in_loop
async def test_times_that_are_refused(tmp_path: Path, wish: dict[str, str]) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.send(properties=wish)).code == 13
        assert await client.max_offset() == 0


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"timer_max_delay_sec": 60}, "timerMaxDelaySec"), ({"file_reserved_time": 0}, "fileReservedTime")],
)
@in_loop
async def test_the_longest_delay_is_configured(tmp_path: Path, settings: dict[str, int], key: str) -> None:
    async with serving(tmp_path, **settings) as (_, client):
        answer = await client.send(properties={"TIMER_DELAY_SEC": "61"})
        assert answer.code == 13
        assert key in (answer.remark or "")


@in_loop
async def test_a_level_beats_a_time(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        await client.sent(b"level", properties={"DELAY": "1", "TIMER_DELAY_SEC": "7200"})
        clock.advance(2)
        (message,) = await arrived(client, 1)
        assert "TIMER_DELAY_SEC" not in message.properties


@pytest.mark.parametrize("loss", ["none", "progress", "queues"])
@in_loop
async def test_a_restart_forgets_nothing(tmp_path: Path, loss: str) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        now = clock.now_ms()
        for seconds in (300, 100, 200, 400):
            await send_at(client, now + seconds * 1000, b"%d" % seconds)
        await recall(client, await send_at(client, now + 300_000, b"taken back"))
        clock.advance(150)
        await arrived(client, 1)
        await until(lambda: house.broker.delays.timers.pending == 4)
    if loss == "progress":
        for kept in (tmp_path / "config").glob("timerProgress.json*"):
            kept.unlink()
    if loss == "queues":
        shutil.rmtree(tmp_path / "consumequeue")
    async with running(tmp_path, clock=clock) as house:
        client = house.client()
        clock.advance(1000)
        await until(lambda: idle(house))
        again = [b"100"] if loss == "progress" else []
        assert [each.body for each in await arrived(client, 4 + len(again))] == [
            b"100", *again, b"200", b"300", b"400"
        ]  # fmt: skip
        assert await client.max_offset() == 4 + len(again)


@in_loop
async def test_messages_that_take_the_places_of_lost_ones_come_too(tmp_path: Path) -> None:
    """A loss of power takes the end of the queue, a kill follows before the progress is saved again."""
    clock = MovableClock()
    async with serving(tmp_path / "store", clock=clock) as (house, client):
        await send_at(client, clock.now_ms() + HOUR_MS, b"far")
        shutil.copytree(tmp_path / "store", tmp_path / "lost", ignore=shutil.ignore_patterns("*.tmp"))
        await send_at(client, clock.now_ms() + 2 * HOUR_MS, b"lost")
    shutil.copy(tmp_path / "store/config/timerProgress.json", tmp_path / "lost/config/timerProgress.json")
    async with running(tmp_path / "lost", clock=clock) as house:
        await send_at(house.client(), clock.now_ms() + 60_000, b"new")
        shutil.copytree(tmp_path / "lost", tmp_path / "killed", ignore=shutil.ignore_patterns("*.tmp"))
    async with running(tmp_path / "killed", clock=clock) as house:
        clock.advance(100)
        assert [each.body for each in await arrived(house.client(), 1)] == [b"new"]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@in_loop
async def test_one_that_was_taken_back_holds_nobody_up(tmp_path: Path, flush: str) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock, flush_disk_type=flush) as (house, client):
        now = clock.now_ms()
        await send_at(client, now + HOUR_MS, b"2")
        await recall(client, await send_at(client, now + HOUR_MS // 2, b"1"))
        clock.advance(HOUR_MS // 2000 + 1)
        await until(lambda: house.broker.delays.timers.pending == 1)
        clock.advance(HOUR_MS // 2000)
        assert [each.body for each in await arrived(client, 1)] == [b"2"]


@in_loop
async def test_a_queue_that_apache_rebuilt_holds_tag_hashes(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        now = clock.now_ms()
        await send_at(client, now + 200_000, b"200", TAGS="x")
        handle = await send_at(client, now + 300_000, b"300")
        await recall(client, handle)
        queue = house.broker.store.queues[TIMER_TOPIC, 0]
        entries = [queue.entry(number) for number in range(3)]
        queue.truncate(0)
        for entry in entries:
            assert entry is not None
            queue.append(entry[0], entry[1], 120)
    async with running(tmp_path, clock=clock) as house:
        client = house.client()
        assert await client.max_offset() == 0
        clock.advance(1000)
        await arrived(client, 1)
        await until(lambda: idle(house))
        assert (await client.pull()).bodies == [b"200"]


@in_loop
async def test_what_apaches_broker_delivered_does_not_come_again(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (_, client):
        now = clock.now_ms()
        for seconds in (100, 200, 150):
            await send_at(client, now + seconds * 1000, b"%d" % seconds)
    # Two messages of the queue were read, and delivered up to 160 s.
    (tmp_path / "config" / "timercheck").write_bytes(struct.pack(">qqqq", now + 160_000, 0, 2, 2) + bytes(4064))
    clock.advance(1000)
    async with running(tmp_path, clock=clock) as house:
        client = house.client()
        await until(lambda: idle(house))
        assert [each.body for each in await arrived(client, 2)] == [b"150", b"200"]
        assert await client.max_offset() == 2


@in_loop
async def test_many_of_one_moment(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        due_ms = clock.now_ms() + 60_000
        await asyncio.gather(*(send_at(client, due_ms, b"%d" % number) for number in range(1000)))
        assert house.broker.delays.timers.pending == 1000
        clock.advance(61)
        await until(lambda: idle(house))
        assert [each.body for each in await arrived(client, 1000)] == [b"%d" % number for number in range(1000)]
        assert await client.max_offset() == 1000


# -- taking back -------------------------------------------------------------------------------------------


@in_loop
async def test_a_message_that_is_taken_back_does_not_come(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        due_ms = clock.now_ms() + 60_000
        await send_at(client, due_ms, b"first")
        handle = await send_at(client, due_ms, b"second")
        await send_at(client, due_ms, b"third")
        answer = await recall(client, handle)
        assert (answer.code, answer.fields()["msgId"]) == (0, "K-second")
        clock.advance(61)
        await until(lambda: idle(house))
        assert [each.body for each in await arrived(client, 2)] == [b"first", b"third"]
        assert await client.max_offset() == 2
        late = await recall(client, handle)
        assert (late.code, late.remark) == (604, "the message is delivered already, or never was delayed")


@pytest.mark.parametrize("key", ["t+K-x", "K-x"])
@in_loop
async def test_a_message_can_take_another_back(tmp_path: Path, key: str) -> None:
    """As RocketMQ 5 does it: TIMER_DEL_UNIQKEY and the same time."""
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        time = {"TIMER_DELIVER_MS": str(clock.now_ms() + 60_000)}
        await client.sent(b"x", properties={"UNIQ_KEY": "K-x", **time})
        await client.sent(b"y", properties={"UNIQ_KEY": "K-y", **time})
        await client.sent(b"", properties={"TIMER_DEL_UNIQKEY": key, **time})
        clock.advance(61)
        await until(lambda: idle(house))
        assert [each.body for each in await arrived(client, 1)] == [b"y"]
        assert await client.max_offset() == 1
        assert (await client.send(properties={"TIMER_DEL_UNIQKEY": "K", "TIMER_DELIVER_MS": "1"})).code == 13


@in_loop
async def test_messages_with_a_level_can_be_taken_back_too(tmp_path: Path) -> None:
    clock = MovableClock()
    async with serving(tmp_path, clock=clock) as (house, client):
        await client.sent(b"1", properties={"DELAY": "17", "UNIQ_KEY": "K1"})
        await client.sent(b"2", properties={"DELAY": "17", "UNIQ_KEY": "K2"})
        handle = RecallHandle("t", "broker-a", str(clock.now_ms() + HOUR_MS), "K1")
        assert (await recall(client, handle.encode())).code == 0
    async with running(tmp_path, clock=clock) as house:
        client = house.client()
        clock.advance(3601)
        assert [each.body for each in await arrived(client, 1)] == [b"2"]
        await until(lambda: house.broker.delays.levels.offsets() == {17: 2})
        assert await client.max_offset() == 1


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "!!!",
        "djEgdCBicm9rZXI",
        base64.urlsafe_b64encode(b"v2 t broker-a 99999999999999 K").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-a 99999999999999").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-a soon K").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-a 99999999999999 K").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-a 5 K").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-b 5 K").decode(),
        base64.urlsafe_b64encode(b"v1 u broker-a 5 K").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-a 5 K\x02REAL_TOPIC\x01u").decode(),
        base64.urlsafe_b64encode(b"v1 t broker-a 5 \xff").decode(),
    ],
)
@in_loop
async def test_handles_that_are_none(tmp_path: Path, handle: str) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await recall(client, handle)
        assert answer.code == 604
        assert answer.remark


@in_loop
async def test_taking_back_needs_a_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await recall(client, "x", topic="other")).code == 17
        assert (await client.ask(RECALL_MESSAGE, {"topic": "t"})).code == 1
