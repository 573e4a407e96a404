"""Letters and replays on their way to a broker, each at its time: the clock is the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from msgspec.structs import replace

from mqctl.client.admin import Admin
from mqctl.client.admin.copying import Copier
from mqctl.client.admin.deadletters import Outcome, Resender, copy_id
from mqctl.client.admin.replaying import Aim, Pace, replay
from mqctl.remoting.message import ReceivedMessage
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop
from tests.unit.client.test_selecting import STORED, message


class Clock:
    """Time passes only for those who sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(round(seconds, 3))

    def pace(self, speed: float | None = None, rate: float | None = None) -> Pace:
        return Pace(speed, rate, lambda: self.now, self.sleep)


def stored(after_ms: Iterable[int]) -> list[ReceivedMessage]:
    """In one queue, at so many ms after the first."""
    return [
        replace(message(b"%d" % number), phys_offset=number, store_timestamp=STORED + ms, queue_offset=number)
        for number, ms in enumerate(after_ms)
    ]


async def each(messages: list[ReceivedMessage]) -> AsyncIterator[ReceivedMessage]:
    for one in messages:
        yield one


async def outcomes(resender: Resender, letters: list[ReceivedMessage], max_count: int | None = None) -> list[Outcome]:
    return [sent.outcome async for sent in resender.send(each(letters), max_count)]


def copier_to(mq: EmbeddedBroker) -> Copier:
    return Copier(mq.namesrv, timeout=10, credentials=None)


@in_loop
async def test_the_original_pace(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    clock = Clock()
    aim = Aim("t", "replay", {}, lambda: None)
    async with copier_to(mq) as copier:
        messages = stored((0, 3000, 3000, 10_000))
        await replay(each(messages), copier, aim, clock.pace(speed=1), lambda *sent: None)
    assert clock.slept == [0, 3, 0, 7]
    assert [one.body for one in mq.messages("t")] == [b"0", b"1", b"2", b"3"]


@in_loop
async def test_letters_at_a_rate(mq: EmbeddedBroker) -> None:
    """Those that are passed over take no time, nor do those that are only looked at."""
    mq.create_topic("orders", queues=1)
    letters = stored((0, 0, 0, 0))
    clock = Clock()
    async with Admin(mq.namesrv) as admin, copier_to(mq) as copier:
        looking = Resender(admin, copier, clock.pace(rate=10), dry_run=True)
        assert await outcomes(looking, letters) == [Outcome.WOULD] * 4
        assert clock.slept == []
        resender = Resender(admin, copier, clock.pace(rate=10))
        assert await outcomes(resender, letters[:3]) == [Outcome.SENT] * 3
        assert clock.slept == [0, 0.1, 0.1]
        assert await outcomes(resender, letters) == [Outcome.ALREADY] * 3 + [Outcome.SENT]
        assert clock.slept == [0, 0.1, 0.1, 0.1]


@in_loop
async def test_as_many_as_are_still_to_be_sent(mq: EmbeddedBroker) -> None:
    mq.create_topic("orders", queues=1)
    letters = stored((0, 0, 0))
    async with Admin(mq.namesrv) as admin, copier_to(mq) as copier:
        resender = Resender(admin, copier, Clock().pace())
        assert await outcomes(resender, letters, 1) == [Outcome.SENT]
        assert await outcomes(resender, letters, 1) == [Outcome.ALREADY, Outcome.SENT]
        assert await outcomes(resender, letters, 5) == [Outcome.ALREADY, Outcome.ALREADY, Outcome.SENT]


@in_loop
async def test_what_an_earlier_run_says_it_sent(mq: EmbeddedBroker) -> None:
    """It counts also when the index does not have it yet, but only for the topic it was sent to."""
    for topic in ("orders", "other"):
        mq.create_topic(topic, queues=1)
    letters = stored((0, 0))
    known = {copy_id(letters[0]): "orders"}
    async with Admin(mq.namesrv) as admin, copier_to(mq) as copier:
        resender = Resender(admin, copier, Clock().pace(), known=known)
        assert await outcomes(resender, letters) == [Outcome.ALREADY, Outcome.SENT]
        elsewhere = Resender(admin, copier, Clock().pace(), "other", known)
        assert await outcomes(elsewhere, letters) == [Outcome.SENT] * 2
