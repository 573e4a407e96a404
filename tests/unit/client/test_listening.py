"""Calling listeners: how many at a time, what counts as failure, and that nothing submitted is forgotten."""

from __future__ import annotations

import asyncio
import threading

import pytest
from msgspec.structs import replace

from mqctl.client.held import HeldQueue
from mqctl.client.listening import Abandoned, Listener, Portion, ThreadWorkers, Workers, workers
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import ReceivedMessage
from tests.aio import in_loop, until
from tests.unit.client.test_idempotence import MESSAGE

MESSAGES = [replace(MESSAGE, queue_offset=number) for number in range(200)]


def queue() -> HeldQueue:
    return HeldQueue(MessageQueue("t", "broker-a", 0), 0)


class Endings:
    """How each message ended."""

    def __init__(self) -> None:
        self.errors: dict[int, BaseException | None] = {}

    def __call__(self, held: HeldQueue, portion: Portion, error: BaseException | None) -> None:
        for message in portion:
            assert message.queue_offset not in self.errors
            self.errors[message.queue_offset] = error


async def quick(message: ReceivedMessage) -> None:
    pass


async def waiting(message: ReceivedMessage) -> None:
    await asyncio.sleep(0)


def plain(message: ReceivedMessage) -> None:
    pass


def wrapped(message: ReceivedMessage) -> object:
    return waiting(message)


@pytest.mark.parametrize("listener", [quick, waiting, plain, wrapped])
@pytest.mark.parametrize("concurrency", [1, 3, 20])
@in_loop
async def test_everything_submitted_is_finished(listener: Listener, concurrency: int) -> None:
    endings = Endings()
    at_work = workers(listener, concurrency, endings)
    held = queue()
    for message in MESSAGES:
        at_work.submit(held, [message])
        if message.queue_offset % 7 == 0:
            await asyncio.sleep(0)  # whatever the workers are just doing
    await until(lambda: len(endings.errors) == len(MESSAGES))
    await at_work.stop(1)
    assert set(endings.errors.values()) == {None}


@in_loop
async def test_what_comes_while_the_last_worker_ends_is_not_forgotten() -> None:
    endings = Endings()
    at_work: Workers

    async def listener(message: ReceivedMessage) -> None:
        loop.call_soon(again)

    def again() -> None:  # runs after the worker has ended and before anybody is told
        if len(endings.errors) < 50:
            at_work.submit(held, [MESSAGES[len(endings.errors)]])

    loop = asyncio.get_running_loop()
    held = queue()
    at_work = workers(listener, 1, endings)
    at_work.submit(held, [MESSAGES[0]])
    await until(lambda: len(endings.errors) == 50)
    await at_work.stop(1)


@in_loop
async def test_exceptions_are_how_it_ended() -> None:
    endings = Endings()

    async def listener(message: ReceivedMessage) -> None:
        raise ValueError

    def exiting(message: ReceivedMessage) -> None:
        raise SystemExit  # in a thread it ends the message, not the program

    for at_work in (workers(listener, 1, endings), workers(exiting, 1, endings)):
        at_work.submit(queue(), [MESSAGES[len(endings.errors)]])
        await until(lambda at_work=at_work: len(endings.errors) == 1 + isinstance(at_work, ThreadWorkers))  # type: ignore[misc]
        await at_work.stop(1)
    assert [type(error) for error in endings.errors.values()] == [ValueError, SystemExit]


@pytest.mark.parametrize("listener", [quick, plain])
@in_loop
async def test_messages_of_a_dropped_queue_are_not_begun(listener: Listener) -> None:
    endings = Endings()
    at_work = workers(listener, 1, endings)
    held = queue()
    held.drop()
    at_work.submit(held, [MESSAGES[0]])
    await until(lambda: endings.errors)
    await at_work.stop(1)
    assert isinstance(endings.errors[0], Abandoned)


@in_loop
async def test_stopping_waits_for_what_runs_and_begins_nothing() -> None:
    endings = Endings()
    begun, go_on = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        begun.set()
        go_on.wait(10)

    at_work = workers(listener, 1, endings)
    held = queue()
    for message in MESSAGES[:3]:
        at_work.submit(held, [message])
    await asyncio.to_thread(begun.wait)
    stopping = asyncio.create_task(at_work.stop(10))
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    at_work.submit(held, [MESSAGES[3]])
    assert endings.errors.pop(0) is None
    assert sorted(endings.errors) == [1, 2, 3]
    assert {type(error) for error in endings.errors.values()} == {Abandoned}


@in_loop
async def test_a_coroutine_that_outlives_the_end_is_cancelled_and_the_rest_abandoned() -> None:
    endings = Endings()

    async def listener(message: ReceivedMessage) -> None:
        await asyncio.Event().wait()

    at_work = workers(listener, 1, endings)
    held = queue()
    for message in MESSAGES[:3]:
        at_work.submit(held, [message])
    await asyncio.sleep(0)
    await at_work.stop(0.01)
    at_work.submit(held, [MESSAGES[3]])
    assert sorted(endings.errors) == [0, 1, 2, 3]
    assert {type(error) for error in endings.errors.values()} == {Abandoned}


@in_loop
async def test_awaiting_something_cancelled_is_a_failure_like_others() -> None:
    endings = Endings()

    async def listener(message: ReceivedMessage) -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    at_work = workers(listener, 1, endings)
    held = queue()
    for message in MESSAGES[:3]:
        at_work.submit(held, [message])
    await until(lambda: len(endings.errors) == 3)
    await at_work.stop(1)
    assert {type(error) for error in endings.errors.values()} == {asyncio.CancelledError}


@in_loop
async def test_a_listener_that_never_waits_needs_one_worker_and_one_that_does_gets_all() -> None:
    endings = Endings()
    tasks: set[asyncio.Task[object] | None] = set()
    go_on = asyncio.Event()

    async def prompt(message: ReceivedMessage) -> None:
        tasks.add(asyncio.current_task())

    async def slow(message: ReceivedMessage) -> None:
        tasks.add(asyncio.current_task())
        await go_on.wait()

    held = queue()
    for listener, expected in ((prompt, 1), (slow, 5)):
        endings.errors.clear()
        tasks.clear()
        go_on.clear()
        at_work = workers(listener, 5, endings)
        for message in MESSAGES[:20]:
            at_work.submit(held, [message])
        await until(lambda: len(tasks) == expected)  # noqa: B023
        go_on.set()
        await until(lambda: len(endings.errors) == 20)
        await at_work.stop(1)
        assert len(tasks) == expected


@pytest.mark.parametrize("plain", [False, True])
@in_loop
async def test_a_batch_is_a_list_and_fails_as_a_whole(plain: bool) -> None:
    endings = Endings()
    sizes: list[int] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        listener_in_thread(messages)

    def listener_in_thread(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        if len(messages) == 2:
            raise ValueError

    at_work = workers(listener_in_thread if plain else listener, 1, endings, batches=True)
    held = queue()
    for portion in (MESSAGES[:3], MESSAGES[3:5], MESSAGES[5:6]):
        at_work.submit(held, portion)
    await until(lambda: len(endings.errors) == 6)
    await at_work.stop(1)
    assert sizes == [3, 2, 1]
    assert [number for number, error in endings.errors.items() if error is not None] == [3, 4]


@in_loop
async def test_what_a_plain_function_returns_to_await_is_awaited() -> None:
    endings = Endings()
    go_on = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await go_on.wait()
        raise ValueError

    at_work = workers(lambda message: handle(message), 3, endings)
    for message in MESSAGES[:3]:
        at_work.submit(queue(), [message])
    await asyncio.sleep(0.01)
    assert not endings.errors
    go_on.set()
    await until(lambda: len(endings.errors) == 3)
    await at_work.stop(1)
    assert {type(error) for error in endings.errors.values()} == {ValueError}


@in_loop
async def test_what_is_awaited_for_a_plain_function_ends_with_the_workers() -> None:
    endings = Endings()
    begun = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    at_work = workers(lambda message: handle(message), 1, endings)
    at_work.submit(queue(), [MESSAGES[0]])
    await begun.wait()
    await at_work.stop(0.01)
    await until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("listener-")])
