"""Traces: the text that Java's TraceDataEncoder reads."""

from __future__ import annotations

from mqctl import testing
from mqctl.client import Message, Producer
from mqctl.names import TRACE_TOPIC
from tests.aio import in_loop


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
