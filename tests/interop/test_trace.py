"""Message traces: what traced clients report about each message can be read back by its id."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.driver import ClientDriver, DriverError
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
NO_MESSAGE, TOPIC_NOT_EXIST = 208, 17
# Within a record of a trace, and between records; one message may carry several.
FIELD, RECORD = "\x01", "\x02"


def traces(client: ClientDriver, broker: OurBroker, msg_id: str) -> dict[str, list[str]]:
    """The records about a message, by their kind: Pub, SubBefore, SubAfter."""
    try:
        found = client.call("query_key", namesrv=broker.namesrv, topic=TRACE_TOPIC, key=msg_id)["messages"]
    except DriverError as error:
        assert error.code in (NO_MESSAGE, TOPIC_NOT_EXIST)
        return {}
    texts = [base64.b64decode(message["body"]).decode() for message in found]
    records = [record.split(FIELD) for text in texts for record in text.split(RECORD) if record]
    return {record[0]: record for record in records if msg_id in record}


# The consumer of 5.5.0 sent none here, nor to Apache's broker.
@pytest.mark.parametrize(
    ("kind", "made_at_start", "wanted"),
    [("java49", False, {"Pub", "SubBefore", "SubAfter"}), ("java55", True, {"Pub"})],
)
def test_a_message_leaves_its_trace(
    kind: str,
    made_at_start: bool,
    wanted: set[str],
    tmp_path: Path,
    unique: Unique,
    request: pytest.FixtureRequest,
) -> None:
    """The topic of the traces is there with traceTopicEnable, and made by the first trace without."""
    client: ClientDriver = request.getfixturevalue(kind)
    topic, senders, group = unique("topic"), unique("senders"), unique("group")
    conf = {"traceTopicEnable": made_at_start}
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address, conf=conf) as broker:
        make_topic(broker, topic, 1)
        # 5.5.0 waits up to 5 s for more to send with a trace.
        options = {"java": {"traceMsgBatchNum": 1}} if kind == "java55" else {}
        start_producer(client, broker, senders, trace=True, **options)
        start_consumer(client, broker, topic, group, trace=True)
        msg_id = client.call("send", name="p", topic=topic, body=b"traced", tags="tag", keys="key")["msgId"]
        client.wait_messages("c", 1)
        end = time.monotonic() + 30
        while not wanted <= (found := traces(client, broker, msg_id)).keys():
            assert time.monotonic() < end, found
            time.sleep(0.1)
        assert {senders, topic, "tag", "key"} <= set(found["Pub"])
        assert "SubBefore" not in wanted or group in found["SubBefore"]
        client.reset()  # traces on their way need the broker
