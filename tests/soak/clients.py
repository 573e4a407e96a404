"""What each client does. A body says who it is from and since when it is on its way: ``ID KIND NANOSECONDS``."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from mqctl.client import (
    ConsumeFrom,
    Message,
    MqError,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    TransactionProducer,
    TransactionState,
)
from mqctl.client.admin import Admin
from mqctl.client.admin.progress import consume_stats
from mqctl.client.admin.topics import delete_topic
from mqctl.remoting.bodies import TopicConfig

from .cast import QUEUES, Kind, Part, Role, Task, group, topics
from .ledger import Ledger

BATCH: Final = 4
# One message in so many is refused by its consumer the first time, and comes again from the retry topic.
REFUSED_ONE_IN: Final = 50
PAUSE_AFTER_ERROR_S: Final = 0.3
ARRIVALS_PER_SECOND: Final = 200
STAY_S: Final = (2.0, 6.0)
OPERATOR_PAUSE_S: Final = (1.0, 3.0)


@dataclass(slots=True)
class Stage:
    """What the clients of a worker share. They send until `last_call`, and are all gone soon after `curtain`."""

    worker: int
    namesrv: str
    broker: str
    clients: int
    pause_s: float  # between two sends of a producer, on average
    ledger: Ledger
    last_call: asyncio.Event = field(default_factory=asyncio.Event)
    curtain: asyncio.Event = field(default_factory=asyncio.Event)
    senders: int = 0  # that have not ended yet
    _numbers: count[int] = field(default_factory=count)

    def new_name(self) -> str:
        return f"{self.worker}-{next(self._numbers)}"

    def sender_ended(self) -> None:
        self.senders -= 1
        if not self.senders:
            self.ledger.silent()

    def topic(self, kind: Kind, number: int) -> str:
        names = topics(kind, self.clients)
        return names[number % len(names)]

    async def rest(self, mean_s: float, until: asyncio.Event) -> None:
        """Irregularly, so that clients do not fall into step."""
        await first_of(until, min(random.expovariate(1 / mean_s), 10 * mean_s))


async def first_of(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def play(stage: Stage, part: Part) -> None:
    role = part.role
    await stage.rest(stage.clients / ARRIVALS_PER_SECOND, stage.curtain)
    if role.task is Task.PRODUCE:
        await PRODUCERS[role.kind](stage, part.number)
    elif role == Role(Task.CONSUME, Kind.PULLED):
        await pull(stage, part.number)
    elif role.task is Task.CONSUME:
        await push(stage, role.kind, part.number)
    elif role.task is Task.CHURN:
        await churn(stage, part.number)
    else:
        await operate(stage, part.number)


def body(name: str, kind: Kind, moment_ns: int) -> bytes:
    return f"{name} {kind} {moment_ns}".encode().ljust(200, b" ")


# -- producers ------------------------------------------------------------------------------------------


async def _send_on(stage: Stage, producer: Producer, kind: Kind, send: Callable[[], Awaitable[None]]) -> None:
    async with producer:
        while not stage.last_call.is_set():
            try:
                with stage.ledger.timed(f"{kind}-send"):
                    await send()
            except MqError as error:
                stage.ledger.failed(f"{kind}-send", error)
                await first_of(stage.curtain, PAUSE_AFTER_ERROR_S)
            await stage.rest(stage.pause_s, stage.last_call)
        stage.sender_ended()
        await stage.curtain.wait()  # brokers may ask about transactions


async def produce(stage: Stage, kind: Kind, number: int) -> None:
    producer = Producer(f"soak-{kind}", stage.namesrv)
    topic = stage.topic(kind, number)

    async def send() -> None:
        if kind is Kind.PLAIN and random.random() < 1 / (2 * BATCH):
            names = [stage.new_name() for _ in range(BATCH)]
            await producer.send_batch([Message(topic, body(name, kind, time.monotonic_ns())) for name in names])
        else:
            names = [stage.new_name()]
            message = Message(topic, body(names[0], kind, time.monotonic_ns()), tags="soak", keys=names[0])
            await producer.send(message, order_key=f"{number}" if kind is Kind.ORDERED else None)
        for name in names:
            stage.ledger.acknowledged(kind, name)

    await _send_on(stage, producer, kind, send)


async def produce_delayed(stage: Stage, number: int) -> None:
    producer = Producer("soak-delayed", stage.namesrv)
    topic = stage.topic(Kind.DELAYED, number)

    async def send() -> None:
        name = stage.new_name()
        delay_ms = random.choice((1000, 500, 1500, 3000))  # a second is level 1
        content = body(name, Kind.DELAYED, time.monotonic_ns() + delay_ms * 1_000_000)
        delay = {"delay_level": 1} if delay_ms == 1000 else {"delay_ms": delay_ms}
        await producer.send(Message(topic, content, keys=name, **delay))
        stage.ledger.acknowledged(Kind.DELAYED, name)

    await _send_on(stage, producer, Kind.DELAYED, send)


class Verdicts:
    """Every tenth transaction is rolled back at once; of two more the broker has to ask, and one of them is rolled
    back then. The name decides, so that any producer of the group gives the same answer."""

    @staticmethod
    def number(content: bytes) -> int:
        return int(content.split()[0].rpartition(b"-")[2]) % 10

    @classmethod
    def commits(cls, content: bytes) -> bool:
        return cls.number(content) not in (0, 2)

    async def execute(self, message: Message, argument: Any) -> TransactionState:
        return TransactionState.UNKNOWN if self.number(message.body) in (1, 2) else self._verdict(message.body)

    async def check(self, message: ReceivedMessage) -> TransactionState:
        return self._verdict(message.body)

    def _verdict(self, content: bytes) -> TransactionState:
        return TransactionState.COMMIT if self.commits(content) else TransactionState.ROLLBACK


async def produce_in_transactions(stage: Stage, number: int) -> None:
    producer = TransactionProducer("soak-transaction", Verdicts(), stage.namesrv)
    topic = stage.topic(Kind.TRANSACTION, number)

    async def send() -> None:
        name = stage.new_name()
        content = body(name, Kind.TRANSACTION, time.monotonic_ns())
        if not Verdicts.commits(content):
            stage.ledger.rolled_back(Kind.TRANSACTION, name)  # whatever becomes of the call
        await producer.send_in_transaction(Message(topic, content, keys=name))
        if Verdicts.commits(content):
            stage.ledger.acknowledged(Kind.TRANSACTION, name)

    await _send_on(stage, producer, Kind.TRANSACTION, send)


PRODUCERS: Final[dict[Kind, Callable[[Stage, int], Awaitable[None]]]] = {
    Kind.PLAIN: lambda stage, number: produce(stage, Kind.PLAIN, number),
    Kind.ORDERED: lambda stage, number: produce(stage, Kind.ORDERED, number),
    Kind.PULLED: lambda stage, number: produce(stage, Kind.PULLED, number),
    Kind.DELAYED: produce_delayed,
    Kind.TRANSACTION: produce_in_transactions,
}


# -- consumers ------------------------------------------------------------------------------------------


def took(stage: Stage, message: ReceivedMessage) -> None:
    name, kind, moment_ns = message.body.decode().split()
    stage.ledger.consumed(name)
    if not message.reconsume_times and not asked_for(name, kind):
        stage.ledger.took(f"{kind}-arrival", (time.monotonic_ns() - int(moment_ns)) / 1e9)


def asked_for(name: str, kind: str) -> bool:
    """A transaction that waits until the broker asks says nothing about how fast anything is."""
    return kind == Kind.TRANSACTION and Verdicts.number(name.encode()) in (1, 2)


def pusher(stage: Stage, kind: Kind, number: int) -> PushConsumer:
    topic = stage.topic(kind, number)

    async def listener(message: ReceivedMessage) -> None:
        if kind is Kind.PLAIN and not message.reconsume_times and random.random() < 1 / REFUSED_ONE_IN:
            raise RetryLater(delay_level=1)
        took(stage, message)

    ordered = kind is Kind.ORDERED
    return PushConsumer(group(topic), listener, topic, stage.namesrv, orderly=ordered, start=ConsumeFrom.FIRST)


async def push(stage: Stage, kind: Kind, number: int) -> None:
    async with pusher(stage, kind, number):
        await stage.curtain.wait()


async def pull(stage: Stage, number: int) -> None:
    topic = stage.topic(Kind.PULLED, number)
    async with PullConsumer(group(topic), topic, stage.namesrv, start=ConsumeFrom.FIRST) as consumer:
        while not stage.curtain.is_set():
            for message in await consumer.poll(timeout=0.5):
                took(stage, message)


async def churn(stage: Stage, number: int) -> None:
    while not stage.curtain.is_set():
        consumer = pusher(stage, Kind.PLAIN, number)
        try:
            with stage.ledger.timed("join"):
                await consumer.start()
        except MqError as error:
            stage.ledger.failed("join", error)
            await first_of(stage.curtain, PAUSE_AFTER_ERROR_S)
            continue
        await first_of(stage.curtain, random.uniform(*STAY_S))
        await consumer.close()


# -- operators ------------------------------------------------------------------------------------------


async def operate(stage: Stage, number: int) -> None:
    async with Admin(stage.namesrv) as admin, Producer("soak-operator", stage.namesrv) as producer:
        while not stage.last_call.is_set():
            try:
                await _change_topics(stage, admin, producer)
                await _look_around(stage, admin, number)
            except MqError as error:
                stage.ledger.failed("operate", error)
                await first_of(stage.curtain, PAUSE_AFTER_ERROR_S)
            await first_of(stage.last_call, random.uniform(*OPERATOR_PAUSE_S))


async def _change_topics(stage: Stage, admin: Admin, producer: Producer) -> None:
    topic = f"soak-passing-{stage.new_name()}"
    for queues in (random.randint(1, 4), QUEUES):
        with stage.ledger.timed("topic-change"):
            config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            await admin.create_topic(stage.broker, config)
    try:
        await producer.send(Message(topic, b"gone soon"))
    finally:
        with stage.ledger.timed("topic-delete"):
            await delete_topic(admin, topic, [stage.broker])


async def _look_around(stage: Stage, admin: Admin, number: int) -> None:
    topic = stage.topic(Kind.PLAIN, number)
    with stage.ledger.timed("look"):
        await admin.runtime_info(stage.broker)
        await admin.topic_stats(stage.broker, topic)
        await consume_stats(admin, stage.broker, group(topic))
