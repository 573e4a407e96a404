"""Transactional sends: the listener's word reaches the broker, at once or when it asks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mqctl import testing
from mqctl.client import Message, ReceivedMessage, TransactionProducer, TransactionState
from mqctl.errors import MqError, ResponseError
from mqctl.remoting.command import Command
from mqctl.store import record
from mqctl.store.properties import parse_properties
from tests.aio import in_loop, until
from tests.unit.client.fakes import FakeBroker, cluster

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


class Listener:
    """Says what the test wants, in a thread or on the loop."""

    def __init__(self, verdict: TransactionState | Exception) -> None:
        self.verdict = verdict
        self.executed: list[tuple[Message, Any]] = []
        self.checked: list[ReceivedMessage] = []
        self.threads: set[str] = set()

    def execute(self, message: Message, argument: Any) -> TransactionState:
        self.executed.append((message, argument))
        self.threads.add(threading.current_thread().name)
        return self._say()

    async def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return self._say()

    def _say(self) -> TransactionState:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


def half_record(properties: str) -> bytes:
    """A half message as a broker sends it along with its question."""
    host = record.pack_host("127.0.0.1", 10911)
    text = properties.encode()
    size = record.encoded_size(0, 1, 4, len(text))
    return record.encode(size, b"t", 0, 7, 99, 0, 4, 1, host, 2, host, 0, 0, b"half", text)


def ends_of(broker: FakeBroker) -> list[dict[str, str]]:
    """What the broker is told with END_TRANSACTION."""
    ends: list[dict[str, str]] = []
    broker.server._handlers[37] = (None, lambda connection, request, header: ends.append(request.fields()))
    return ends


@pytest.mark.parametrize(
    ("verdict", "on_the_wire"),
    [
        (TransactionState.COMMIT, COMMIT),
        (TransactionState.ROLLBACK, ROLLBACK),
        (TransactionState.UNKNOWN, UNKNOWN),
        (RuntimeError("database gone"), UNKNOWN),
    ],
)
@in_loop
async def test_what_execute_says_ends_the_transaction(verdict: TransactionState | Exception, on_the_wire: int) -> None:
    async with cluster() as (namesrv, (broker,)):
        ends = ends_of(broker)
        fields: list[dict[str, str]] = []

        def take(connection: object, request: Command) -> Command:
            fields.append(request.fields())
            answer = broker.take(request)
            answer.fields()["msgId"] = record.encode_msg_id(record.pack_host("127.0.0.1", 10911), 4711)
            return answer

        broker.behaviour = take
        listener = Listener(verdict)
        async with TransactionProducer("g", listener, namesrv.address) as producer:
            result = await producer.send_in_transaction(Message("t", b"half"), 42)
            await until(lambda: ends)
        properties = parse_properties(fields[0]["i"])
        assert (properties["TRAN_MSG"], properties["PGROUP"], fields[0]["f"]) == ("true", "g", "4")
        assert [(message.body, argument) for message, argument in listener.executed] == [(b"half", 42)]
        assert listener.threads != {threading.current_thread().name}, "a plain method may block"
        expected = verdict if isinstance(verdict, TransactionState) else TransactionState.UNKNOWN
        assert result.state is expected
        assert ends == [
            {
                "producerGroup": "g",
                "tranStateTableOffset": "0",
                "commitLogOffset": "4711",
                "commitOrRollback": str(on_the_wire),
                "msgId": result.sent.msg_id,
                "transactionId": result.sent.msg_id,
                "fromTransactionCheck": "false",
            }
        ]


@in_loop
async def test_a_check_is_answered_with_the_offsets_it_came_with() -> None:
    async with cluster() as (namesrv, (broker,)):
        ends = ends_of(broker)
        listener = Listener(TransactionState.COMMIT)
        async with TransactionProducer("g", listener, namesrv.address) as producer:
            await producer.queues("t")
            await producer._engine.heartbeat()
            (connection,) = broker.connections
            half = half_record(properties="UNIQ_KEY\x01K1\x02PGROUP\x01g")
            ext = {"tranStateTableOffset": "7", "commitLogOffset": "99", "transactionId": "K1"}
            connection.oneway(Command(39, ext=ext, body=half))
            await until(lambda: ends)
            connection.oneway(Command(39, ext=ext, body=b"not a record"))
            connection.oneway(Command(39, ext={}, body=half))
            listener.verdict = TransactionState.ROLLBACK
            connection.oneway(Command(39, ext=ext, body=half))
            await until(lambda: len(ends) == 2)
        assert [message.body for message in listener.checked] == [b"half", b"half"]
        assert [end["commitOrRollback"] for end in ends] == [str(COMMIT), str(ROLLBACK)]
        assert ends[0] == {
            "producerGroup": "g",
            "tranStateTableOffset": "7",
            "commitLogOffset": "99",
            "commitOrRollback": str(COMMIT),
            "msgId": "K1",
            "transactionId": "K1",
            "fromTransactionCheck": "true",
        }


@in_loop
async def test_nothing_is_executed_when_the_half_message_is_refused_or_delayed() -> None:
    async with cluster() as (namesrv, (broker,)):
        broker.behaviour = lambda connection, request: request.reply(13, remark="no")
        listener = Listener(TransactionState.COMMIT)
        async with TransactionProducer("g", listener, namesrv.address) as producer:
            with pytest.raises(ResponseError):
                await producer.send_in_transaction(Message("t", b"x"))
            with pytest.raises(MqError, match="cannot be delayed"):
                await producer.send_in_transaction(Message("t", b"x", delay_level=3))
        assert listener.executed == []


@in_loop
async def test_our_broker_asks_until_it_knows() -> None:
    with testing.broker(transactionTimeOut=50, transactionCheckInterval=50) as mq:
        mq.create_topic("t", queues=1)
        listener = Listener(TransactionState.UNKNOWN)
        async with TransactionProducer("g", listener, mq.namesrv) as producer:
            result = await producer.send_in_transaction(Message("t", b"half", keys="k"))
            await until(lambda: listener.checked, 10)
            assert mq.messages("t") == []
            listener.verdict = TransactionState.COMMIT
            await until(lambda: mq.messages("t"), 10)
        (stored,) = mq.messages("t")
        assert (stored.body, stored.msg_id, stored.keys) == (b"half", result.sent.msg_id, ["k"])
        assert {message.msg_id for message in listener.checked} == {result.sent.msg_id}
