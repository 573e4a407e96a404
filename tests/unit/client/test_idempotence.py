"""A key is handled once: over redeliveries, restarts, processes and failures."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from mqctl.client import ConsumeFrom, Idempotence, PushConsumer, ReceivedMessage, RetryLater
from mqctl.client.idempotence import LEASE_SECONDS, Seen, SqliteKeys, level_after, message_key
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop
from tests.unit.client.embedded import Inbox, send

MESSAGE = ReceivedMessage(
    topic="t",
    stored_body=b"x",
    stored_properties="UNIQ_KEY\x01ID1",
    flag=0,
    sys_flag=0,
    queue_id=0,
    queue_offset=0,
    phys_offset=0,
    size_bytes=100,
    body_crc=0,
    born_timestamp=0,
    born_host=("127.0.0.1", 1),
    store_timestamp=0,
    store_host=("127.0.0.1", 2),
    reconsume_times=0,
    prepared_offset=0,
)


def test_a_plain_handler_runs_once_for_a_key(tmp_path: Path) -> None:
    calls: list[str] = []

    @Idempotence(tmp_path / "keys.db")
    def handle(message: ReceivedMessage) -> None:
        calls.append(message.msg_id)

    handle(MESSAGE)
    handle(replace(MESSAGE, phys_offset=77, reconsume_times=1))
    handle(replace(MESSAGE, stored_properties="UNIQ_KEY\x01ID2", _properties=None))
    assert calls == ["ID1", "ID2"]


def named(number: int) -> ReceivedMessage:
    return replace(MESSAGE, stored_properties=f"UNIQ_KEY\x01{number}", _properties=None)


@in_loop
async def test_what_a_plain_handler_returns_to_await_is_part_of_it(tmp_path: Path) -> None:
    keys = SqliteKeys(tmp_path / "keys.db")
    calls = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal calls
        calls += 1
        assert keys.begin(message.msg_id) is Seen.RUNNING
        if calls == 1:
            raise ValueError

    once = Idempotence(keys)(lambda message: handle(message))
    with pytest.raises(ValueError):
        await once(MESSAGE)
    await once(MESSAGE)
    assert once(MESSAGE) is None
    assert calls == 2
    keys.close()


@pytest.mark.parametrize("plain", [True, False])
@in_loop
async def test_of_a_list_the_handler_gets_what_is_new(tmp_path: Path, plain: bool) -> None:
    calls: list[list[str]] = []
    store = SqliteKeys(tmp_path / "keys.db")
    once = Idempotence(store)

    def in_thread(messages: list[ReceivedMessage]) -> None:
        calls.append([message.msg_id for message in messages])
        if len(calls) == 1:
            raise ValueError

    async def on_loop(messages: list[ReceivedMessage]) -> None:
        in_thread(messages)

    async def hand(*numbers: int) -> None:
        result = once(in_thread if plain else on_loop)([named(number) for number in numbers])
        if result is not None:
            await result

    with pytest.raises(ValueError):
        await hand(1, 2)
    await hand(2, 1, 2)
    await hand(1, 2)
    store.begin("9")  # elsewhere
    with pytest.raises(RetryLater):
        await hand(8, 9)
    await hand(8)
    assert calls == [["1", "2"], ["2", "1"], ["8"]]
    store.close()


def test_keys_survive_restarts(tmp_path: Path) -> None:
    calls = []
    for _ in range(2):
        keys = SqliteKeys(tmp_path / "keys.db")
        Idempotence(keys)(lambda message: calls.append(message))(MESSAGE)
        keys.close()
    assert len(calls) == 1


@in_loop
async def test_a_failure_leaves_the_key_new(tmp_path: Path) -> None:
    calls = 0

    @Idempotence(tmp_path / "keys.db")
    async def handle(message: ReceivedMessage) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError

    with pytest.raises(ValueError):
        await handle(MESSAGE)
    await handle(MESSAGE)
    await handle(MESSAGE)
    assert calls == 2


def test_while_one_handles_it_another_is_told_to_come_again(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @Idempotence(tmp_path / "keys.db")
    def slow(message: ReceivedMessage) -> None:
        begun.set()
        go_on.wait(10)

    @Idempotence(tmp_path / "keys.db")  # another process would have a connection of its own, too
    def other(message: ReceivedMessage) -> None:
        raise AssertionError("handled twice")

    thread = threading.Thread(target=slow, args=(MESSAGE,))
    thread.start()
    begun.wait(10)
    with pytest.raises(RetryLater) as later:
        other(MESSAGE)
    assert (later.value.delay_level, later.value.counts) == (level_after(LEASE_SECONDS), False)
    go_on.set()
    thread.join()
    other(MESSAGE)


def test_leases_and_keys_run_out(tmp_path: Path) -> None:
    now = 0.0
    keys = SqliteKeys(tmp_path / "keys.db", keep_seconds=100, lease_seconds=10, clock=lambda: now)
    assert keys.begin("k") is Seen.NEW
    now = 9
    assert keys.begin("k") is Seen.RUNNING
    now = 11
    assert keys.begin("k") is Seen.NEW  # whoever began is taken for dead
    keys.done("k")
    now = 110
    assert keys.begin("k") is Seen.DONE
    now = 112
    assert keys.begin("k") is Seen.NEW
    keys.close()


@pytest.mark.parametrize(("seconds", "level"), [(0.5, 1), (60, 5), (61, 6), (LEASE_SECONDS, 15), (9e9, 18)])
def test_a_message_that_is_being_handled_comes_again_after_the_lease(seconds: float, level: int) -> None:
    assert level_after(seconds) == level


def test_the_lease_can_be_chosen(tmp_path: Path) -> None:
    crashed = Idempotence(tmp_path / "keys.db")
    assert crashed.seen(MESSAGE) is Seen.NEW
    assert Idempotence(tmp_path / "keys.db", lease_seconds=60).seen(MESSAGE) is Seen.RUNNING
    assert Idempotence(tmp_path / "keys.db", lease_seconds=-1).seen(MESSAGE) is Seen.NEW


def test_threads_agree_who_is_first(tmp_path: Path) -> None:
    stores = [SqliteKeys(tmp_path / "keys.db") for _ in range(4)]
    together = threading.Barrier(4)
    new: list[str] = []

    def claim(store: SqliteKeys) -> None:
        for number in range(50):
            together.wait()
            if store.begin(str(number)) is Seen.NEW:
                new.append(str(number))

    threads = [threading.Thread(target=claim, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(new, key=int) == [str(number) for number in range(50)]
    for store in stores:
        store.close()


def test_what_a_message_is_known_by() -> None:
    assert message_key(MESSAGE) == "ID1"
    retried = replace(MESSAGE, stored_properties="ORIGIN_MESSAGE_ID\x01FIRST", _properties=None, phys_offset=500)
    assert message_key(retried) == "FIRST"
    assert message_key(replace(MESSAGE, stored_properties="", _properties=None)) == MESSAGE.offset_msg_id


@in_loop
async def test_with_a_consumer_a_message_sent_twice_is_handled_once(mq: EmbeddedBroker, tmp_path: Path) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", [b"pay", b"pay", b"end"], keys="order-1")
    inbox, everything = Inbox(), Inbox()
    once = Idempotence(tmp_path / "keys.db", key=lambda message: message.keys[0] + message.body.decode())

    async def listen(message: ReceivedMessage) -> None:
        await once(inbox)(message)
        await everything(message)

    async with PushConsumer("g", listen, "t", mq.namesrv, start=ConsumeFrom.FIRST, concurrency=1):
        await everything.wait(3)
    assert inbox.bodies == [b"pay", b"end"]
    await asyncio.sleep(0)
