"""A producer asks, a consumer replies, and the broker brings the reply to the one who asked."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers import wire
from tests.peers.driver import ClientDriver, DriverError
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
GET_PRODUCER_CONNECTION_LIST = 204


def introduce(client: ClientDriver, broker: OurBroker, group: str, topic: str) -> None:
    """Until the broker knows the producer. The Go client asks before its first heartbeat, which comes a second later;
    until then no broker can find it."""
    start_producer(client, broker, group)
    client.call("send", name="p", topic=topic, body=b"hello")
    end = time.monotonic() + 20
    while wire.request(broker.address, GET_PRODUCER_CONNECTION_LIST, producerGroup=group).code != wire.SUCCESS:
        assert time.monotonic() < end, "no heartbeat"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("asker", "replier"), [("java49", "java55"), ("java55", "java49"), ("go", "java49"), ("java55", "go")]
)
def test_a_question_and_its_answer(
    asker: str, replier: str, our_broker: OurBroker, unique: Unique, request: pytest.FixtureRequest
) -> None:
    asking: ClientDriver = request.getfixturevalue(asker)
    replying: ClientDriver = request.getfixturevalue(replier)
    topic = unique("topic")
    make_topic(our_broker, topic, 1)
    if asker == "go":
        introduce(asking, our_broker, unique("askers"), topic=unique("elsewhere"))
    else:
        start_producer(asking, our_broker, unique("askers"))
    start_producer(replying, our_broker, unique("repliers"), name="replies")
    start_consumer(replying, our_broker, topic, unique("group"), replyBy="replies")
    for question in ("one", "two"):
        reply = asking.call("request", name="p", topic=topic, body=question.encode())["message"]
        assert base64.b64decode(reply["body"]) == f"re: {question}".encode()
        assert reply["topic"] == REPLY_TOPIC
        assert reply["properties"]["MSG_TYPE"] == "reply"
        assert int(reply["properties"]["PUSH_REPLY_TIME"]) <= int(reply["properties"]["ARRIVE_TIME"])
    assert [message.body for message in replying.wait_messages("c", 2)] == [b"one", b"two"]


def test_nobody_replies(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("topic")
    make_topic(our_broker, topic, 1)
    start_producer(java49, our_broker, unique("askers"))
    with pytest.raises(DriverError, match=r"but not get reply message|wait reply message timeout"):
        java49.call("request", name="p", topic=topic, body=b"anybody?", timeoutMs=500)
