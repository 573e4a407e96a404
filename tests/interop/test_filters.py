"""Real consumers with SQL92 filters against our broker."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.driver import ClientDriver, DriverError, Message
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def filtering_broker(our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    workdir, conf = tmp_path_factory.mktemp("filtering"), {"enablePropertyFilter": True}
    with OurBroker(workdir, our_namesrv.address, name="filtering", cluster="filtering", conf=conf) as server:
        yield server


def send(client: ClientDriver, topic: str, count: int, start: int = 0) -> None:
    """Messages with their number as property n, from a region of three."""
    template = {"topic": topic, "body": b"m-", "properties": {"n": "{i}", "region": ["eu", "us", "cn"]}}
    report = client.call("send_many", name="p", count=count, start=start, concurrency=4, template=template)
    assert report["errors"] == []


def bodies(messages: list[Message]) -> Counter[bytes]:
    return Counter(each.body for each in messages)


def numbered(numbers: list[int]) -> Counter[bytes]:
    return Counter(b"m-%d" % number for number in numbers)


def test_a_push_consumer_gets_what_matches(client: ClientDriver, filtering_broker: OurBroker, unique: Unique) -> None:
    topic = unique("sql")
    make_topic(filtering_broker, topic, 4)
    start_producer(client, filtering_broker, unique("pg"))
    send(client, topic, 100)
    expression = "n BETWEEN 10 AND 1000 AND region IN ('eu', 'cn') AND missing IS NULL"
    start_consumer(client, filtering_broker, topic, unique("cg"), expressionType="SQL92", expression=expression)
    wanted = [number for number in range(10, 100) if number % 3 != 1]
    assert bodies(client.wait_messages("c", len(wanted))) == numbered(wanted)
    send(client, topic, 50, start=100)  # these find its pulls waiting
    wanted += [number for number in range(100, 150) if number % 3 != 1]
    got = client.wait_messages("c", len(wanted))
    assert bodies(got) == numbered(wanted)
    assert {each.properties["region"] for each in got} == {"eu", "cn"}


def test_what_is_turned_down_comes_again(java55: ClientDriver, filtering_broker: OurBroker, unique: Unique) -> None:
    """By way of the retry topic, to which clients subscribe without the filter."""
    topic, group = unique("sqlretry"), unique("cg")
    make_topic(filtering_broker, topic, 1)
    make_topic(filtering_broker, f"%RETRY%{group}", 1)  # else the client looks for its route 30 s later
    start_producer(java55, filtering_broker, unique("pg"))
    options = {"expressionType": "SQL92", "expression": "n = 3", "failFirst": 1, "retryDelayLevel": 1}
    start_consumer(java55, filtering_broker, topic, group, **options)
    send(java55, topic, 5)
    got = java55.wait_messages("c", 2)
    assert bodies(got) == Counter({b"m-3": 2})
    assert sorted(each.reconsume_times for each in got) == [0, 1]


def test_a_lite_pull_consumer_gets_what_matches(
    java55: ClientDriver, filtering_broker: OurBroker, unique: Unique
) -> None:
    topic = unique("sqllite")
    make_topic(filtering_broker, topic, 2)
    start_producer(java55, filtering_broker, unique("pg"))
    send(java55, topic, 30)
    fields = {"group": unique("cg"), "topic": topic, "namesrv": filtering_broker.namesrv, "from": "first"}
    java55.call("lite_pull_start", name="l", expressionType="SQL92", expression="n >= 20", **fields)
    got: Counter[bytes] = Counter()
    for _ in range(20):
        polled = java55.call("lite_pull_poll", name="l", timeoutMs=1500)["messages"]
        got.update(base64.b64decode(each["body"]) for each in polled)
        if got.total() >= 10:
            break
    assert got == numbered(list(range(20, 30)))


@pytest.mark.parametrize("kind", ["java49", "java55"])
def test_a_wrong_filter_is_refused_at_the_start(
    kind: str, request: pytest.FixtureRequest, filtering_broker: OurBroker, unique: Unique
) -> None:
    client: ClientDriver = request.getfixturevalue(kind)
    topic = unique("sqlwrong")
    make_topic(filtering_broker, topic, 1)
    with pytest.raises(DriverError, match="character 3, \"LIKE 'x%'\": this cannot stand here") as caught:
        start_consumer(client, filtering_broker, topic, unique("cg"), expressionType="SQL92", expression="a LIKE 'x%'")
    assert caught.value.code == 23


@pytest.mark.parametrize("kind", ["java49", "java55"])
def test_a_broker_without_filters_says_so(
    kind: str, request: pytest.FixtureRequest, our_broker: OurBroker, unique: Unique
) -> None:
    client: ClientDriver = request.getfixturevalue(kind)
    topic = unique("sqloff")
    make_topic(our_broker, topic, 1)
    with pytest.raises(DriverError, match="enablePropertyFilter is off"):
        start_consumer(client, our_broker, topic, unique("cg"), expressionType="SQL92", expression="a = 1")
