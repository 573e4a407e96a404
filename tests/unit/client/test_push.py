"""The push consumer against a real broker: delivery, order, retries, positions, sharing, faults."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqctl.client import ConsumeFrom, Limits, Message, Producer, PushConsumer, ReceivedMessage, RetryLater, orderly
from mqctl.client.admin.traces import decode_traces
from mqctl.client.blocking import PushConsumer as BlockingPushConsumer
from mqctl.client.listening import Listener
from mqctl.client.offsets import local_offsets_path
from mqctl.client.orderly import Orderly
from mqctl.errors import ConfigError, ConnectionFailed
from mqctl.names import TRACE_TOPIC
from mqctl.remoting import bodies
from mqctl.remoting.bodies import LockBatchBody, MessageQueue
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.unique_id import local_ip
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop, until
from tests.unit.client.embedded import Inbox, numbered, send

FIRST = ConsumeFrom.FIRST


@in_loop
async def test_every_message_is_handed_over_once(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST) as consumer:
        assert {queue.queue_id for queue in consumer.assignment() if queue.topic == "t"} == {0, 1, 2, 3}
        await send(mq, "t", numbered(100), tags="a", keys="k1 k2")
        assert sorted(await inbox.wait(100)) == sorted(numbered(100))
    message = inbox.messages[0]
    assert (message.topic, message.tags, message.keys) == ("t", "a", ["k1", "k2"])
    assert (message.broker_name, message.reconsume_times) == ("broker-a", 0)


@in_loop
async def test_plain_functions_run_in_threads_side_by_side(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    await send(mq, "t", numbered(8))
    together = threading.Barrier(8, timeout=10)
    threads: list[str] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(message: ReceivedMessage) -> None:
        together.wait()  # passes only when all eight are at work at once
        threads.append(threading.current_thread().name)
        if len(threads) == 8:
            loop.call_soon_threadsafe(done.set)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, concurrency=8):
        await done.wait()
    assert len(set(threads)) == 8
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("listener-")]


@in_loop
async def test_no_more_at_a_time_than_asked_for(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    await send(mq, "t", numbered(30))
    running = most = handled = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal running, most, handled
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        handled += 1

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, concurrency=3):
        await until(lambda: handled == 30)
    assert most == 3


@in_loop
async def test_only_wanted_tags(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    await send(mq, "t", [b"yes"], tags="Aa")
    await send(mq, "t", [b"no"], tags="BB")  # has the same hash
    await send(mq, "t", [b"neither"])
    await send(mq, "t", [b"also"], tags="c")
    inbox = Inbox()
    async with PushConsumer("g", inbox, {"t": "Aa || c"}, mq.namesrv, start=FIRST) as consumer:
        await inbox.wait(2)
        # What is not wanted is passed over for good: positions reach the end of every queue.
        await until(lambda: sum(held.position for held in consumer.held_queues()) == 4)
    assert sorted(inbox.bodies) == [b"also", b"yes"]


@in_loop
async def test_positions_survive_restarts(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    got: list[bytes] = []
    for round_number in range(3):
        await send(mq, "t", numbered(20, round_number * 20))
        inbox = Inbox()
        async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST):
            await inbox.wait(20)
        got += inbox.bodies
    assert sorted(got) == sorted(numbered(60))


@in_loop
async def test_what_is_not_consumed_at_the_end_comes_again(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(5))
    stuck = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"2":
            stuck.set()
            await asyncio.sleep(60)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, finish_seconds=0.01) as consumer:
        await stuck.wait()
        await until(lambda: [len(held) for held in consumer.held_queues() if held.queue.topic == "t"] == [1])
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST):
        assert await inbox.wait(3) == [b"2", b"3", b"4"]


@in_loop
async def test_failures_come_again_and_then_are_dead_letters(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    attempts: list[tuple[str, int]] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append((message.topic, message.reconsume_times))
        raise RetryLater(delay_level=1)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, max_reconsume_times=2):
        await send(mq, "t", [b"bad"])
        for attempt in (1, 2):
            await until(lambda attempt=attempt: len(attempts) == attempt)  # type: ignore[misc]
            await until(lambda attempt=attempt: len(mq.messages("SCHEDULE_TOPIC_XXXX")) == attempt)  # type: ignore[misc]
            mq.clock.advance(2)
        await until(lambda: mq.messages("%DLQ%g"))
    assert attempts == [("t", 0), ("t", 1), ("t", 2)]
    (dead,) = mq.messages("%DLQ%g")
    assert dead.body == b"bad"


@in_loop
async def test_an_exception_is_a_failure_and_is_logged(mq: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    mq.create_topic("t")
    inbox = Inbox()

    async def handle(message: ReceivedMessage) -> None:
        await inbox(message)
        if message.reconsume_times == 0:
            raise ValueError("not this one")

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST):
        await send(mq, "t", [b"x"])
        await inbox.wait(1)
        await until(lambda: mq.messages("SCHEDULE_TOPIC_XXXX"))
        mq.clock.advance(60)
        await inbox.wait(2)
    assert inbox.messages[0].msg_id == inbox.messages[1].msg_id
    assert "not this one" in caplog.text


@in_loop
async def test_what_the_broker_cannot_find_goes_back_as_a_copy(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    inbox = Inbox()

    async def handle(message: ReceivedMessage) -> None:
        await inbox(message)
        if message.reconsume_times == 0:
            message.phys_offset = 10**9  # as if the log had been cleaned meanwhile
            raise RetryLater

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST):
        await send(mq, "t", [b"x" * 10_000], tags="a", keys="k")  # compressed
        await inbox.wait(1)
        await until(lambda: mq.messages("SCHEDULE_TOPIC_XXXX"))
        mq.clock.advance(60)
        await inbox.wait(2)
    first, second = inbox.messages
    assert (second.body, second.topic, second.tags, second.keys) == (first.body, "t", "a", ["k"])
    assert (second.msg_id, second.reconsume_times) == (first.msg_id, 1)


@in_loop
async def test_orderly_keeps_order_over_failures(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    seen: list[tuple[bytes, int]] = []

    def handle(message: ReceivedMessage) -> None:
        seen.append((message.body, message.reconsume_times))
        if message.body == b"3" and message.reconsume_times < 2:
            raise RetryLater(suspend=0.01)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, orderly=True):
        await send(mq, "t", numbered(10), key="one queue")
        await until(lambda: len(seen) == 12)
    expected = [(body, 0) for body in numbered(10)]
    expected[4:4] = [(b"3", 1), (b"3", 2)]
    assert seen == expected


@in_loop
async def test_orderly_gives_up_after_the_limit(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    inbox = Inbox()

    async def handle(message: ReceivedMessage) -> None:
        await inbox(message)
        if message.body == b"0":
            raise RetryLater(suspend=0)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, orderly=True, max_reconsume_times=2):
        await send(mq, "t", numbered(2))
        assert await inbox.wait(4) == [b"0", b"0", b"0", b"1"]
        await until(lambda: mq.messages("%DLQ%g"))
    assert [message.body for message in mq.messages("%DLQ%g")] == [b"0"]


@in_loop
async def test_a_topic_that_is_made_later_is_consumed_soon(mq: EmbeddedBroker) -> None:
    inbox = Inbox()
    async with PushConsumer("g", inbox, "later", mq.namesrv, start=FIRST):
        mq.create_topic("later")
        await send(mq, "later", numbered(1))
        assert await inbox.wait(1) == numbered(1)


@in_loop
async def test_a_group_shares_queues_and_takes_over(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    one, two = Inbox(), Inbox()
    async with PushConsumer("g", one, "t", mq.namesrv, start=FIRST) as first:
        async with PushConsumer("g", two, "t", mq.namesrv, start=FIRST) as second:
            await until(lambda: not first.assignment() & second.assignment())
            assert len(own(first)) == len(own(second)) == 2
            await send(mq, "t", numbered(40))
            await until(lambda: len(one.bodies) + len(two.bodies) == 40)
        await until(lambda: len(own(first)) == 4)
        await send(mq, "t", numbered(8, 40))
        await until(lambda: len(one.bodies) + len(two.bodies) == 48)
    assert sorted(one.bodies + two.bodies) == sorted(numbered(48))


def own(consumer: PushConsumer) -> list[int]:
    return [queue.queue_id for queue in consumer.assignment() if queue.topic == "t"]


@in_loop
async def test_orderly_queues_change_hands_only_between_messages(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=2)
    running: set[int] = set()
    seen: dict[int, list[int]] = {0: [], 1: []}

    async def handle(message: ReceivedMessage) -> None:
        assert message.queue_id not in running, "two at work on one queue"
        running.add(message.queue_id)
        await asyncio.sleep(0.002)
        seen[message.queue_id].append(message.queue_offset)
        running.discard(message.queue_id)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, orderly=True):
        sending = asyncio.create_task(send(mq, "t", numbered(300)))
        for _ in range(3):
            async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, orderly=True) as other:
                await until(lambda other=other: own(other))  # type: ignore[misc]
                await asyncio.sleep(0.05)
        await sending
        await until(lambda: sum(map(len, seen.values())) == 300, 15)
    assert seen == {0: list(range(len(seen[0]))), 1: list(range(len(seen[1])))}


@in_loop
async def test_everyone_gets_a_broadcast(mq: EmbeddedBroker, tmp_path: Path) -> None:
    mq.create_topic("t")
    one, two = Inbox(), Inbox()

    def consumer(inbox: Inbox, instance: str) -> PushConsumer:
        return PushConsumer(
            "g", inbox, "t", mq.namesrv, start=FIRST, broadcast=True, instance=instance, offsets_dir=tmp_path
        )

    async with consumer(one, "one"), consumer(two, "two"):
        await send(mq, "t", numbered(10))
        assert sorted(await one.wait(10)) == sorted(await two.wait(10)) == sorted(numbered(10))
    await send(mq, "t", [b"later"])
    again = Inbox()
    async with consumer(again, "one"):
        assert await again.wait(1) == [b"later"]
    assert "offsetTable" in local_offsets_path(tmp_path, f"{local_ip()}@one", "g").read_text()


@in_loop
async def test_pulling_stops_while_too_much_waits(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(200))
    go_on = asyncio.Event()
    handled = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal handled
        await go_on.wait()
        handled += 1

    limits = Limits(messages=50)
    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, limits=limits, concurrency=4) as consumer:
        (held,) = [held for held in consumer.held_queues() if held.queue.topic == "t"]
        await until(lambda: held.is_full)
        assert 50 <= len(held) < 50 + 32
        assert held.position == 0
        go_on.set()
        await until(lambda: handled == 200)
        await until(lambda: held.position == 200)


@in_loop
async def test_one_slow_message_holds_back_the_position_and_in_the_end_the_queue(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(200))
    go_on = asyncio.Event()
    inbox = Inbox()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            await go_on.wait()
        await inbox(message)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, limits=Limits(span=100)) as consumer:
        (held,) = [held for held in consumer.held_queues() if held.queue.topic == "t"]
        await until(lambda: len(held) == 1 and held.is_full)
        assert held.position == 0
        assert len(inbox.bodies) < 200
        go_on.set()
        await inbox.wait(200)


@in_loop
async def test_a_listener_that_hangs_loses_its_message(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    inbox = Inbox()

    async def handle(message: ReceivedMessage) -> None:
        await inbox(message)
        if message.reconsume_times == 0:
            await asyncio.sleep(60)

    async with PushConsumer(
        "g", handle, "t", mq.namesrv, start=FIRST, consume_timeout=0.05, finish_seconds=0.01
    ) as consumer:
        await send(mq, "t", [b"x"])
        await inbox.wait(1)
        await until(lambda: sum(held.position for held in consumer.held_queues()) == 1)
        mq.clock.advance(60)
        await inbox.wait(2)
    assert [message.reconsume_times for message in inbox.messages] == [0, 1]


@in_loop
async def test_a_topic_may_come_later(mq: EmbeddedBroker) -> None:
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST) as consumer:
        assert own(consumer) == []
        mq.create_topic("t")
        await send(mq, "t", [b"x"])
        await consumer._engine.routes.refresh_all()  # as every 30 s
        await inbox.wait(1)


@in_loop
async def test_a_consumer_that_starts_while_the_broker_is_away(mq: EmbeddedBroker) -> None:
    """It looks again after a second, not at the next regular round, which `wait` would not live to see."""
    mq.create_topic("t")
    await send(mq, "t", numbered(10))
    mq.stop()
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST):
        mq.start()
        assert sorted(await inbox.wait(10)) == sorted(numbered(10))


@in_loop
async def test_the_broker_restarts_under_load(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST):
        await send(mq, "t", numbered(100))
        await inbox.wait(50)
        await asyncio.to_thread(mq.stop)
        await asyncio.to_thread(mq.start)
        await send(mq, "t", numbered(100, 100))
        await until(lambda: set(inbox.bodies) == set(numbered(200)), 15)


@in_loop
async def test_nothing_needs_the_name_server_once_routes_are_known(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    inbox, other = Inbox(), Inbox()
    async with (
        Producer("p", mq.namesrv) as producer,
        PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST) as consumer,
    ):
        await producer.send(Message("t", b"before"))
        async with PushConsumer("g", other, "t", mq.namesrv, start=FIRST):
            await until(lambda: len(own(consumer)) == 2)
            await asyncio.to_thread(mq._background.run, mq._namesrv.stop())
        await until(lambda: len(own(consumer)) == 4)  # the broker tells who is in the group
        for body in numbered(8):
            await producer.send(Message("t", body))
        await until(lambda: {b"before", *numbered(8)} <= {*inbox.bodies, *other.bodies})


@in_loop
async def test_closing_does_not_wait_for_a_broker_that_is_gone(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST):
        await send(mq, "t", [b"x"])
        await inbox.wait(1)
        await asyncio.to_thread(mq.stop)


@in_loop
async def test_no_name_server_is_an_error_at_the_start() -> None:
    consumer = PushConsumer("g", Inbox(), "t", "127.0.0.1:1")
    with pytest.raises(ConnectionFailed):
        await consumer.start()


def test_wrong_arguments_are_named() -> None:
    for group, topics in (("", "t"), ("no blanks", "t"), ("g", {}), ("g", {"t": " || "})):
        with pytest.raises(ConfigError):
            PushConsumer(group, print, topics, "127.0.0.1:1")  # type: ignore[arg-type]


def test_the_blocking_twin(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    got: list[bytes] = []
    enough = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        got.append(message.body)
        if len(got) == 3:
            enough.set()

    with BlockingPushConsumer("g", handle, "t", mq.namesrv, start=FIRST) as consumer:
        assert len(consumer.assignment()) >= 4
        asyncio.run(send(mq, "t", numbered(3)))
        assert enough.wait(10)
        consumer.commit()
    assert sorted(got) == numbered(3)


@pytest.mark.parametrize("in_threads", [False, True])
@in_loop
async def test_an_orderly_consumer_that_closes_at_work_commits_and_unlocks(
    mq: EmbeddedBroker, in_threads: bool
) -> None:
    mq.create_topic("t")
    await send(mq, "t", numbered(40))
    begun: list[bytes] = []
    go_on = threading.Event()

    async def handle(message: ReceivedMessage) -> None:
        begun.append(message.body)
        while not go_on.is_set():
            await asyncio.sleep(0.001)

    def handle_in_thread(message: ReceivedMessage) -> None:
        begun.append(message.body)
        go_on.wait(10)

    listener = handle_in_thread if in_threads else handle
    first = PushConsumer("g", listener, "t", mq.namesrv, start=FIRST, orderly=True, concurrency=2)
    await first.start()
    await until(lambda: len(begun) == 2)
    closing = asyncio.create_task(first.close())
    await asyncio.sleep(0.05)
    go_on.set()
    await closing
    assert len(begun) == 2, "nothing new is begun"
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST, orderly=True):
        assert sorted(begun + await inbox.wait(38)) == sorted(numbered(40))


@in_loop
async def test_seeking_and_rebalancing_at_once_take_a_queue_once(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST) as consumer:
        await inbox.wait(3)
        (queue,) = (queue for queue in consumer.assignment() if queue.topic == "t")
        for _ in range(5):
            seeking = asyncio.create_task(consumer.seek(queue, 3))
            while not seeking.done():
                await consumer._membership.rebalance()
            await seeking
        await send(mq, "t", [b"last"])
        await inbox.wait(4)
        await asyncio.sleep(0.2)
    assert inbox.bodies.count(b"last") == 1


@pytest.mark.parametrize("orderly", [False, True])
@in_loop
async def test_a_queue_that_is_given_away_during_a_seek_is_not_taken_again(mq: EmbeddedBroker, orderly: bool) -> None:
    mq.create_topic("t", queues=1)
    is_ours = True

    def strategy(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        return list(queues) if is_ours else []

    async with PushConsumer("g", Inbox(), "t", mq.namesrv, orderly=orderly, strategy=strategy) as consumer:
        (queue,) = [queue for queue in consumer.assignment() if queue.topic == "t"]
        is_ours = False
        await asyncio.gather(consumer.seek(queue, 3), consumer._membership.rebalance())
        assert consumer.assignment() == set()


@in_loop
async def test_a_message_given_back_while_its_listener_was_stuck_is_not_given_back_again(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    await send(mq, "t", [b"slow"])
    given_back = asyncio.Event()
    attempts: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.reconsume_times)
        if not message.reconsume_times:
            await given_back.wait()
            raise ValueError("too late")

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, consume_timeout=0.05) as consumer:
        await until(lambda: attempts)
        await until(lambda: not any(map(len, consumer.held_queues())))
        given_back.set()
        await asyncio.sleep(0.1)
        mq.clock.advance(60)
        await until(lambda: len(attempts) > 1)
        await asyncio.sleep(0.3)
    assert attempts == [0, 1]


@in_loop
async def test_an_orderly_consumer_whose_lock_somebody_else_has(
    mq: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops at once, and asks again long before a lock would be renewed."""
    monkeypatch.setattr(orderly, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(orderly, "AGAIN_SECONDS", 0.01)
    mq.create_topic("t", queues=1)
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=FIRST, orderly=True) as consumer:
        (queue,) = (queue for queue in consumer.assignment() if queue.topic == "t")
        engine, delivery = consumer._engine, consumer._delivery
        assert isinstance(delivery, Orderly)

        async def lock(code: RequestCode, client_id: str) -> None:
            body = LockBatchBody(consumer_group="g", client_id=client_id, mq_set=[queue])
            address = engine.routes.master(queue.broker_name)
            assert address is not None
            await engine.call(address, Command(code, body=bodies.encode(body)))

        while await delivery._renew():
            await lock(RequestCode.UNLOCK_BATCH_MQ, consumer.client_id)  # as if the broker had restarted
            await lock(RequestCode.LOCK_BATCH_MQ, "other")
        monkeypatch.setattr(orderly, "RENEW_SECONDS", 3600.0)
        await send(mq, "t", numbered(3))
        await until(lambda: any(len(held) == 3 for held in consumer.held_queues()))
        assert inbox.bodies == []
        await lock(RequestCode.UNLOCK_BATCH_MQ, "other")
        assert await inbox.wait(3) == numbered(3)


@pytest.mark.parametrize("orderly", [False, True])
@in_loop
async def test_batches_are_lists_of_one_queue_and_fail_as_a_whole(mq: EmbeddedBroker, orderly: bool) -> None:
    mq.create_topic("t", queues=2)
    await send(mq, "t", numbered(20))
    batches: list[list[tuple[bytes, int]]] = []

    async def handle(messages: list[ReceivedMessage]) -> None:
        assert len({message.queue_id for message in messages}) == 1
        batches.append([(message.body, message.reconsume_times) for message in messages])
        if len(batches) == 1:
            raise RetryLater(delay_level=1, suspend=0)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, orderly=orderly, batch=4):
        await until(lambda: len(batches) > 1)
        mq.clock.advance(1)  # the broker keeps what a concurrent listener gave back
        await until(lambda: len({body for batch in batches[1:] for body, _ in batch}) == 20)
    first, later = batches[0], batches[1:]
    assert all(len(batch) <= 4 for batch in batches)
    assert max(map(len, batches)) == 4
    assert {body for batch in later for body, times in batch if times == 1} == {body for body, _ in first}
    if orderly:
        of_queue = [int(body) for batch in later for body, _ in batch if int(body) % 2 == int(first[0][0]) % 2]
        assert of_queue == sorted(of_queue)


@in_loop
async def test_an_attempt_that_does_not_count_brings_no_orderly_message_closer_to_its_end(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    attempts: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.reconsume_times)
        if len(attempts) < 5:
            raise RetryLater(suspend=0, counts=False)

    async with PushConsumer("g", handle, "t", mq.namesrv, start=FIRST, orderly=True, max_reconsume_times=0):
        await send(mq, "t", [b"x"])
        await until(lambda: len(attempts) == 5)
    assert attempts == [0] * 5
    assert mq.messages("%DLQ%g") == []


@pytest.mark.parametrize("kind", ["coroutine", "plain", "wrapped"])
@in_loop
async def test_traces_tell_how_each_message_fared(mq: EmbeddedBroker, kind: str) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", [b"good", b"bad", b"later"], keys="k")
    seen: dict[bytes, str] = {}

    def in_thread(message: ReceivedMessage) -> None:
        seen[message.body] = message.msg_id
        if message.body == b"bad":
            raise ValueError
        if message.body == b"later":
            raise RetryLater

    async def handle(message: ReceivedMessage) -> None:
        in_thread(message)

    listener: Listener = {"coroutine": handle, "plain": in_thread, "wrapped": lambda message: handle(message)}[kind]
    async with PushConsumer("g", listener, "t", mq.namesrv, start=FIRST, trace=True):
        await until(lambda: len(seen) == 3)
    told = [message for message in mq.messages(TRACE_TOPIC) if "k" in message.keys]
    found = {body: decode_traces(told, msg_id) for body, msg_id in seen.items()}
    assert {body: [trace.status for trace in traces] for body, traces in found.items()} == {
        b"good": ["success"], b"bad": ["exception"], b"later": ["failed"],
    }  # fmt: skip
    (trace,) = found[b"good"]
    assert (trace.kind, trace.group, trace.retry_times) == ("Sub", "g", 0)
    assert trace.cost_ms is not None
