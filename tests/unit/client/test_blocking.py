"""The blocking twin: same names, same results, any thread."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqctl import client, testing
from mqctl.client import Message, NotFound, SendStatus, TransactionState, blocking


def test_every_way_of_sending() -> None:
    with testing.broker() as mq, blocking.Producer("g", mq.namesrv) as producer:
        mq.create_topic("t", queues=2)
        producer.send(Message("t", b"single"))
        producer.send_batch([Message("t", b"batch-0"), Message("t", b"batch-1")])
        futures = [producer.submit(Message("t", b"task-%d" % number)) for number in range(5)]
        assert {future.result().status for future in futures} == {SendStatus.SEND_OK}
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: producer.send(Message("t", b"thread-%d" % number)), range(20)))
        assert len(producer.queues("t")) == 2
        producer.send_oneway(Message("t", b"oneway"))
        producer.close()
        assert len(mq.messages("t")) == 29


def test_errors_are_the_same() -> None:
    with (
        testing.broker(autoCreateTopicEnable=False) as mq,
        blocking.Producer("g", mq.namesrv) as producer,
        pytest.raises(NotFound),
    ):
        producer.send(Message("missing", b"x"))


class Listener:
    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.ROLLBACK

    def check(self, message: client.ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


def test_transactions() -> None:
    with testing.broker() as mq, blocking.TransactionProducer("g", Listener(), mq.namesrv) as producer:
        mq.create_topic("t")
        assert producer.send_in_transaction(Message("t", b"x")).state is TransactionState.ROLLBACK
        assert mq.messages("t") == []


# What the parts of a consumer ask it, on its loop.
INSIDE = {
    "concurrency", "consume_type", "held_queues", "orderly", "positions", "reset", "states_filter", "subscription_data",
}  # fmt: skip


@pytest.mark.parametrize("name", ["Producer", "TransactionProducer", "PushConsumer", "PullConsumer"])
def test_both_faces_have_the_same_methods_and_parameters(name: str) -> None:
    mine, theirs = getattr(blocking, name), getattr(client, name)
    public = {method for method in dir(theirs) if not method.startswith("_")} - INSIDE
    assert public == {method for method in dir(mine) if not method.startswith("_")}
    for method in public - {"client_id", "group"}:
        parameters = inspect.signature(getattr(mine, method)).parameters
        assert parameters == inspect.signature(getattr(theirs, method)).parameters, method


def test_every_exported_name_is_there() -> None:
    assert all(getattr(client, name) is not None for name in client.__all__)
    assert {"SqliteKeys", "Seen", "Start", "Strategy", "circle"} <= set(client.__all__)
