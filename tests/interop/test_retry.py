"""Messages that real consumers turn down: delivered again after growing delays, and in the end set aside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer, wait_for_topic
from tests.peers.driver import ClientDriver, Message
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

# A first attempt of level 3, then 4, and so on: short, and each longer than the one before.
LEVELS_S = (1, 1, 1, 2, 3)


@pytest.fixture(scope="module")
def broker(our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    conf = {"messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS_S)}
    folder = tmp_path_factory.mktemp("retry")
    with OurBroker(folder, our_namesrv.address, name="retry", cluster="retry", conf=conf) as server:
        yield server


def delays_s(deliveries: list[Message]) -> list[float]:
    """How long after the one before each delivery came."""
    times = [message.received_at / 1000 for message in deliveries]
    return [after - before for before, after in itertools.pairwise(times)]


def make_group(broker: OurBroker, group: str) -> None:
    """The retry topic as it is for a group that existed before. Its first consumer ever makes it, but then asks for
    the route only after 30 s."""
    make_topic(broker, f"%RETRY%{group}", 1)
    wait_for_topic(broker, f"%RETRY%{group}")


def test_turned_down_again_and_again(client: ClientDriver, broker: OurBroker, unique: Unique) -> None:
    """Three deliveries of one message, two retries with the delays of levels 3 and 4; then it is a dead letter."""
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, 1)
    make_group(broker, group)
    start_producer(client, broker, unique("producers"))
    start_consumer(client, broker, topic, group, maxReconsumeTimes=2, failFirst=-1)
    sent = client.call("send", name="p", topic=topic, body=b"never", tags="tag", keys="key", properties={"own": "1"})
    deliveries = client.wait_messages("c", 3)
    assert [message.reconsume_times for message in deliveries] == [0, 1, 2]
    assert {message.topic for message in deliveries} == {topic}, "the client shows the topic it was sent to"
    first_retry, second_retry = delays_s(deliveries)
    assert LEVELS_S[2] <= first_retry + 0.01
    assert LEVELS_S[3] <= second_retry + 0.01

    dead = f"%DLQ%{group}"
    wait_for_topic(broker, dead)
    start_consumer(client, broker, dead, unique("undertakers"), name="dead")
    (letter,) = client.wait_messages("dead", 1)
    for message in (*deliveries, letter):
        assert (message.body, message.tags, message.keys) == (b"never", "tag", "key")
        assert message.properties["own"] == "1"
        assert message.msg_id == sent["msgId"]
    for message in (*deliveries[1:], letter):
        assert message.properties["ORIGIN_MESSAGE_ID"] == sent["offsetMsgId"]
        assert message.properties["RETRY_TOPIC"] == topic
    assert letter.reconsume_times == 3
    assert len(client.messages("c")) == 3


def test_accepted_at_last(java55: ClientDriver, broker: OurBroker, unique: Unique) -> None:
    """Each message comes a second time, after the delay its consumer asked for, and not a third time."""
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, 2)
    make_group(broker, group)
    start_producer(java55, broker, unique("producers"))
    start_consumer(java55, broker, topic, group, failFirst=1, retryDelayLevel=1)
    java55.call("send_many", name="p", count=10, template={"topic": topic, "body": b""})
    deliveries = java55.wait_messages("c", 20)
    for number in range(10):
        tries = [message for message in deliveries if message.body == str(number).encode()]
        assert [message.reconsume_times for message in tries] == [0, 1]
        assert delays_s(tries)[0] >= LEVELS_S[0] - 0.01
    assert java55.call("max_offset", namesrv=broker.namesrv, topic=f"%RETRY%{group}", queueId=0)["offset"] == 10
    assert len(java55.messages("c")) == 20
