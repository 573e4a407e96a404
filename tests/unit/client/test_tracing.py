"""Traces: the text that Java's TraceDataEncoder reads."""

from __future__ import annotations

import pytest

from mqctl import testing
from mqctl.client import ConsumeFrom, Message, MessageQueue, Producer, PushConsumer, tracing
from mqctl.client.tracing import Tracer
from mqctl.names import TRACE_TOPIC
from mqctl.remoting.command import Command
from tests.aio import in_loop
from tests.unit.client.embedded import Inbox, send
from tests.unit.client.fakes import cluster


@in_loop
async def test_each_stored_message_leaves_a_line() -> None:
    with testing.broker() as mq:
        mq.create_topic("t", queues=1)
        async with Producer("g", mq.namesrv, trace=True) as producer:
            sent = await producer.send(Message("t", b"body", tags="a", keys=["k1", "k2"]))
            delayed = await producer.send(Message("t", b"later", delay_level=18))
            batch = await producer.send_batch([Message("t", b"1"), Message("t", b"2")])
        traces = mq.messages(TRACE_TOPIC)
        lines = [line.split("\x01") for trace in traces for line in trace.body.decode().split("\x02")[:-1]]
        assert [len(line) for line in lines] == [14] * 3
        first = lines[0]
        assert first[:1] + first[2:10] == [
            "Pub", "DefaultRegion", "g", "t", sent.msg_id, "a", "k1 k2", mq.address, "4",
        ]  # fmt: skip
        assert first[1].isdecimal() and first[10].isdecimal()
        assert first[11:] == ["0", sent.offset_msg_id, "true"]
        assert lines[1][11] == "3", "Delay_Msg"
        assert {delayed.msg_id, sent.msg_id, "k1", "k2", *batch.msg_id.split(",")} == {
            key for trace in traces for key in trace.keys
        }


@in_loop
async def test_closing_gives_up_traces_at_the_first_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "SEND_TIMEOUT_S", 0.05)
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 3600.0)
    asked: list[Command] = []
    async with cluster(topic=TRACE_TOPIC) as (namesrv, (broker,)):
        broker.behaviour = lambda connection, request: asked.append(request)
        async with Producer("g", namesrv.address, trace=True) as producer:
            assert producer._tracer is not None
            for number in range(tracing.MAX_WAITING):
                producer._tracer.add(["id"], "Pub", number)
    assert len({request.body for request in asked}) == 1
    assert f"traces of {tracing.MAX_WAITING - tracing.MAX_LINES_PER_MESSAGE} more messages are lost" in caplog.text


@in_loop
async def test_a_consumer_saves_its_positions_before_its_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    positions: list[int | None] = []

    async def close(tracer: Tracer) -> None:
        positions.append(await consumer._reader.committed(MessageQueue("t", "broker-a", 0)))

    monkeypatch.setattr(Tracer, "close", close)
    inbox = Inbox()
    with testing.broker() as mq:
        mq.create_topic("t", queues=1)
        async with PushConsumer("g", inbox, "t", mq.namesrv, start=ConsumeFrom.FIRST, trace=True) as consumer:
            await send(mq, "t", [b"x"])
            await inbox.wait(1)
    assert positions == [1]
