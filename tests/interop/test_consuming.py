"""Real push and pull consumers against our broker: sharing, joining, leaving, filtering, waiting."""

from __future__ import annotations

import statistics
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.driver import ClientDriver, Message
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]


def send(client: ClientDriver, topic: str, count: int, start: int = 0, **template: object) -> set[tuple[int, int]]:
    """Sends numbered messages; (queue, offset) of each."""
    report = client.call(
        "send_many",
        name="p",
        count=count,
        start=start,
        concurrency=4,
        template={"topic": topic, "body": b"m-", **template},
    )
    assert report["errors"] == []
    return {(queue_id, queue_offset) for _, _, _, _, queue_id, queue_offset in report["results"]}


def bodies(messages: list[Message]) -> Counter[bytes]:
    return Counter(each.body for each in messages)


def numbered(count: int, start: int = 0) -> Counter[bytes]:
    return Counter(b"m-%d" % number for number in range(start, start + count))


def await_condition(holds: Callable[[], bool], seconds: float = 75) -> None:
    """For what only asking again can tell: the clients' own view of their queues."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if holds():
            return
        pause.wait(0.05)
    raise AssertionError(f"not within {seconds:.0f} s")


def wait_for_share(client: ClientDriver, consumer: str, topic: str, queues: int) -> None:
    """Waits until the consumer holds that many queues of the topic, as the client itself reports it; whose client
    id sorts first holds the one queue of the group's retry topic as well."""

    def held() -> list[object]:
        return [each for each in client.call("consumer_assignment", name=consumer)["queues"] if each["topic"] == topic]

    await_condition(lambda: len(held()) == queues)


def share_round(client: ClientDriver, topic: str, number: int) -> tuple[set[int], set[int]] | None:
    """Sends 64 messages to two consumers; the queues each got them from, None while a rebalance goes on."""
    prefix, wanted = b"r%d-" % number, {b"r%d-%d" % (number, each) for each in range(64)}

    def of(consumer: str) -> list[Message]:
        return [each for each in client.messages(consumer) if each.body.startswith(prefix)]

    report = client.call("send_many", name="p", count=64, concurrency=4, template={"topic": topic, "body": prefix})
    assert report["errors"] == []
    await_condition(lambda: {each.body for each in of("c1") + of("c2")} == wanted)
    one, two = of("c1"), of("c2")
    if len(one) + len(two) > 64 or not one or not two:
        return None
    return {each.queue_id for each in one}, {each.queue_id for each in two}


def test_two_consumers_share_the_queues(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic, group = unique("share"), unique("cg")
    make_topic(our_broker, topic, 8)
    start_producer(client, our_broker, unique("pg"))
    start_consumer(client, our_broker, topic, group, name="c1")
    start_consumer(client, our_broker, topic, group, name="c2")
    rounds = (share_round(client, topic, number) for number in range(40))
    assert next(each for each in rounds if each is not None), "both have a share"
    # From here on nothing changes: none lost, none twice, no queue with two readers.
    for _ in range(3):
        stable = next(rounds)
        assert stable is not None
        one, two = stable
        assert len(one) == len(two) == 4
        assert not one & two


def test_a_killed_consumers_queues_go_to_the_others(
    java55: ClientDriver, new_client: Callable[[str], ClientDriver], our_broker: OurBroker, unique: Unique
) -> None:
    topic, group = unique("killed"), unique("cg")
    make_topic(our_broker, topic, 4)
    start_producer(java55, our_broker, unique("pg"))
    start_consumer(java55, our_broker, topic, group, name="survivor")
    victim = new_client("java49")
    start_consumer(victim, our_broker, topic, group, name="victim")
    wait_for_share(java55, "survivor", topic, 2)
    wait_for_share(victim, "victim", topic, 2)
    send(java55, topic, 40)
    both = lambda: bodies(victim.messages("victim")) + bodies(java55.messages("survivor"))  # noqa: E731
    await_condition(lambda: not numbered(40) - both())
    assert victim.messages("victim"), "it had its share"
    victim.kill()
    # The closed connection alone must move the queues: no heartbeat time-out, no 20 s rebalance round.
    wait_for_share(java55, "survivor", topic, 4)
    send(java55, topic, 40, start=40)
    wanted = numbered(40, start=40)
    got = java55.wait_messages("survivor", predicate=lambda got: not wanted - bodies(got))
    taken = bodies(got) + bodies(victim.messages("victim"))
    assert not numbered(80) - taken, "none lost; what the victim had not committed comes again"


def test_broadcasting_reaches_everyone(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic, group = unique("broadcast"), unique("cg")
    make_topic(our_broker, topic, 4)
    start_producer(client, our_broker, unique("pg"))
    send(client, topic, 1, start=900)  # the queues exist before the consumers look for their end
    for name in ("c1", "c2"):
        start_consumer(client, our_broker, topic, group, name=name, model="broadcasting")
    send(client, topic, 50)
    for name in ("c1", "c2"):
        got = client.wait_messages(name, predicate=lambda got: not numbered(50) - bodies(got))
        assert not numbered(50) - bodies(got)
        assert max(bodies(got).values()) == 1


def test_tags_are_filtered_by_the_broker_and_by_the_client(
    client: ClientDriver, our_broker: OurBroker, unique: Unique
) -> None:
    topic = unique("tags")
    make_topic(our_broker, topic, 2)
    start_producer(client, our_broker, unique("pg"))
    # "Aa" and "BB" have the same Java hash: the broker lets both through, the client must tell them apart.
    send(client, topic, 90, tags=["Aa", "BB", "C"])
    start_consumer(client, our_broker, topic, unique("cg"), expression="Aa || C")
    got = client.wait_messages("c", 60)
    assert Counter(each.tags for each in got) == {"Aa": 30, "C": 30}
    send(client, topic, 3, start=90, tags=["Aa", "BB", "C"])
    got = client.wait_messages("c", 62)
    assert Counter(each.tags for each in got) == {"Aa": 31, "C": 31}


def test_a_waiting_pull_is_woken_by_the_message_itself(
    java55: ClientDriver, our_broker: OurBroker, unique: Unique
) -> None:
    topic = unique("longpoll")
    make_topic(our_broker, topic, 1)
    start_producer(java55, our_broker, unique("pg"))
    start_consumer(java55, our_broker, topic, unique("cg"))
    delays = []
    for number in range(20):
        java55.call("send", name="p", topic=topic, body=b"ping-%d" % number)
        got = java55.wait_messages("c", number + 1)[-1]
        delays.append(got.received_at - got.born_timestamp)
    # Polling in rounds would show as hundreds of milliseconds; the bound is generous for a busy machine.
    assert statistics.median(delays) < 100


def test_lite_pull(java_client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic, group = unique("lite"), unique("cg")
    make_topic(our_broker, topic, 4)
    start_producer(java_client, our_broker, unique("pg"))
    sent = send(java_client, topic, 40)
    fields = {"name": "l", "group": group, "topic": topic, "namesrv": our_broker.namesrv, "from": "first"}
    java_client.call("lite_pull_start", **fields)
    got: list[dict[str, object]] = []
    for _ in range(60):
        got += java_client.call("lite_pull_poll", name="l", timeoutMs=1000)["messages"]
        if len(got) >= 40:
            break
    assert len(got) == 40
    assert {(each["queueId"], each["queueOffset"]) for each in got} == sent


@pytest.fixture(params=["java49", "java55"])
def java_client(request: pytest.FixtureRequest) -> ClientDriver:
    driver = request.getfixturevalue(request.param)
    assert isinstance(driver, ClientDriver)
    return driver


def test_the_broker_may_do_the_rebalancing(java55: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic, group = unique("assigned"), unique("cg")
    make_topic(our_broker, topic, 4)
    start_producer(java55, our_broker, unique("pg"))
    send(java55, topic, 40)
    start_consumer(java55, our_broker, topic, group, clientRebalance=False)
    assert bodies(java55.wait_messages("c", 40)) == numbered(40)


def test_more_write_than_read_queues(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("w8r4")
    make_topic(our_broker, topic, 8, read=4)
    start_producer(java49, our_broker, unique("pg"))
    for queue_id in range(8):
        sent = java49.call("send", name="p", topic=topic, body=b"m-%d" % queue_id, queueId=queue_id)
        assert sent["queueId"] == queue_id
    start_consumer(java49, our_broker, topic, unique("cg"))
    got = java49.wait_messages("c", 4)
    assert {each.queue_id for each in got} == {0, 1, 2, 3}, "only read queues are consumed"
    make_topic(our_broker, topic, 8, read=8)
    start_consumer(java49, our_broker, topic, unique("cg"), name="all")
    got = java49.wait_messages("all", 8)
    assert {each.queue_id for each in got} == set(range(8)), "the others kept theirs"
