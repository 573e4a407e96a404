"""POP consumption, which this broker does not have: whoever asks hears so at once, and consumers pull."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers import wire
from tests.peers.apache import mqadmin
from tests.peers.cache import require
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

REQUEST_CODE_NOT_SUPPORTED = 3
POP_CODES = {
    "POP_MESSAGE": 200050,
    "ACK_MESSAGE": 200051,
    "PEEK_MESSAGE": 200052,
    "CHANGE_MESSAGE_INVISIBLETIME": 200053,
    "NOTIFICATION": 200054,
    "POLLING_INFO": 200055,
    "BATCH_ACK_MESSAGE": 200151,
    "SET_MESSAGE_REQUEST_MODE": 401,
}


@pytest.mark.parametrize("code", POP_CODES.values(), ids=POP_CODES.keys())
def test_every_request_is_refused_promptly(our_broker: OurBroker, code: int) -> None:
    reply = wire.request(our_broker.address, code, consumerGroup="g", topic="t", queueId="0")
    assert reply.code == REQUEST_CODE_NOT_SUPPORTED


def test_a_consumer_meant_for_pop_pulls(
    java55: ClientDriver, our_broker: OurBroker, unique: Callable[[str], str]
) -> None:
    """The broker tells 5.x consumers how to consume; an operator cannot have it say POP."""
    topic, group = unique("pop"), unique("cg")
    make_topic(our_broker, topic, 2)
    options = ["-b", our_broker.address, "-t", topic, "-g", group, "-m", "POP", "-q", "0"]
    done = require(mqadmin, "5.5.0", our_broker.namesrv, "setConsumeMode", *options)
    assert "CODE: 3" in done.stdout + done.stderr, done
    start_producer(java55, our_broker, unique("pg"))
    start_consumer(java55, our_broker, topic, group, clientRebalance=False)
    template = {"topic": topic, "body": b"m-"}
    assert java55.call("send_many", name="p", count=10, template=template)["errors"] == []
    got = java55.wait_messages("c", 10)
    assert sorted(each.body for each in got) == [b"m-%d" % number for number in range(10)]
    assert all("POP_CK" not in each.properties for each in got)
