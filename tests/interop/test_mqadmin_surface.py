"""Apache's mqadmin about consumers, groups, traffic and settings: the facts it prints, and what its commands do.

The same tests run with the 4.9.7 tool against Apache's own broker, so that what is expected here is what it does.
The commands run in the Java driver's process: 4.9.7's take milliseconds there, 5.5.0's up to three seconds to end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.acting import make_topic, mqadmin_in, start_consumer, start_producer, wait_for_producer
from tests.peers import wire
from tests.peers.apache import ApacheBroker
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = OurBroker | ApacheBroker

QUEUES, MESSAGES = 4, 8
GET_ROUTEINFO_BY_TOPIC = 105


@pytest.fixture(params=["our_broker", "apache_broker"])
def broker(request: pytest.FixtureRequest) -> AnyBroker:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, (OurBroker, ApacheBroker))
    return found


def refused(client: ClientDriver, broker: AnyBroker, *words: str) -> str:
    """The line of the stack trace that says why."""
    printed = client.call("mqadmin", args=[*words, "-n", broker.namesrv])
    (cause,) = [line for line in printed["stderr"].splitlines() if "CODE: " in line]
    return str(cause)


def rows(text: str, *first: str) -> list[list[str]]:
    """The lines that begin with these words, cut at blanks."""
    return [words for line in text.splitlines() if (words := line.split())[: len(first)] == list(first) and words]


def settings(text: str) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in text.splitlines())}


def have_consumed(client: ClientDriver, broker: AnyBroker, topic: str, group: str) -> list[dict[str, object]]:
    """Messages in all queues, read by a group that is gone again and has left its offsets; what the sends returned."""
    make_topic(broker, topic, QUEUES)
    make_topic(broker, f"%RETRY%{group}", 1)
    start_producer(client, broker, f"{group}_producers", sendTimeoutMs=15_000)
    sent = [
        client.call("send", name="p", topic=topic, body=b"m-%d" % number, keys=f"k{number}", queueId=number % QUEUES)
        for number in range(MESSAGES)
    ]
    start_consumer(client, broker, topic, group, java={"awaitTerminationMillisWhenShutdown": 5000})
    client.wait_messages("c", MESSAGES)
    client.call("consumer_stop", name="c")
    end = time.monotonic() + 10
    while "Diff Total: 0" not in mqadmin_in(client, broker, "consumerProgress", "-g", group):
        assert time.monotonic() < end, "the consumer left no offsets"
    return sent


def test_consumers_as_the_tool_sees_them(java49: ClientDriver, broker: AnyBroker, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    have_consumed(java49, broker, topic, group)
    start_consumer(java49, broker, topic, group, expression="a || b")
    java49.call("send", name="p", topic=topic, body=b"unread", tags="c", queueId=1)

    progress = rows(mqadmin_in(java49, broker, "consumerProgress", "-g", group), topic)
    assert [row[1:3] for row in progress] == [[broker.name, str(queue)] for queue in range(QUEUES)]
    assert [row[3] for row in progress] == ["2", "3", "2", "2"]
    assert {row[4] for row in progress} <= {"2", "3"}
    (overview,) = rows(mqadmin_in(java49, broker, "consumerProgress"), group)
    assert overview[1:5] == ["1", "V4_9_7", "PUSH", "CLUSTERING"]

    connected = mqadmin_in(java49, broker, "consumerConnection", "-g", group)
    (client_id,) = [line.split()[0] for line in connected.splitlines() if " JAVA " in line]
    assert "a || b" in connected
    assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in connected
    wait_for_producer(broker, f"{group}_producers")
    producer = mqadmin_in(java49, broker, "producerConnection", "-g", f"{group}_producers", "-t", topic)
    assert rows(producer, "0001")[0][3:] == ["JAVA", "V4_9_7"]
    assert f"producer group ({group}_producers) instance" in mqadmin_in(
        java49, broker, "producer", "-b", broker.address
    )

    assert "Same subscription in the same group of consumer" in mqadmin_in(
        java49, broker, "consumerStatus", "-g", group
    )
    report = mqadmin_in(java49, broker, "consumerStatus", "-g", group, "-i", client_id, "-s")
    assert "#Consumer MQ Detail#" in report
    assert "ConsumeMessageThread" in report or "PullMessageService" in report, "the threads of the client"

    listed = rows(mqadmin_in(java49, broker, "brokerConsumeStats", "-b", broker.address), topic, group)
    assert [row[2:5] for row in listed] == [
        [broker.name, str(queue), wanted] for queue, wanted in enumerate(["2", "3", "2", "2"])
    ]
    (consumed,) = rows(mqadmin_in(java49, broker, "topicList", "-c"), broker.cluster, topic)
    assert consumed == [broker.cluster, topic, group]
    entries = mqadmin_in(
        java49, broker, "queryCq", "-t", topic, "-q", "1", "-i", "1", "-b", broker.address, "-g", group
    )
    assert "max: 3, min: 0" in entries
    assert entries.count("ConsumeQueueData{") == 2
    assert f"tagsCode={ord('c')}" in entries


def test_offsets_are_moved_while_nobody_consumes(java49: ClientDriver, broker: AnyBroker, unique: Unique) -> None:
    topic, group, other = unique("topic"), unique("group"), unique("other")
    have_consumed(java49, broker, topic, group)

    def offsets(group: str) -> list[str]:
        return [row[4] for row in rows(mqadmin_in(java49, broker, "consumerProgress", "-g", group), topic)]

    assert offsets(group) == ["2"] * QUEUES
    mqadmin_in(java49, broker, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert offsets(group) == ["0"] * QUEUES
    mqadmin_in(java49, broker, "skipAccumulatedMessage", "-g", group, "-t", topic)
    assert offsets(group) == ["2"] * QUEUES
    make_topic(broker, f"%RETRY%{other}", 1)
    mqadmin_in(java49, broker, "cloneGroupOffset", "-s", group, "-d", other, "-t", topic, "-o", "true")
    assert offsets(other) == ["2"] * QUEUES


def test_a_running_consumer_starts_over_and_takes_one_by_hand(
    java49: ClientDriver, our_broker: OurBroker, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    first, *_ = have_consumed(java49, our_broker, topic, group)
    start_consumer(java49, our_broker, topic, group, name="again")
    connected = mqadmin_in(java49, our_broker, "consumerConnection", "-g", group)
    (client_id,) = [line.split()[0] for line in connected.splitlines() if " JAVA " in line]
    one = ("queryMsgById", "-i", str(first["offsetMsgId"]), "-g", group, "-d", client_id)
    assert "CR_SUCCESS" in mqadmin_in(java49, our_broker, *one)
    (by_hand,) = java49.wait_messages("again", 1)
    assert by_hand.body == b"m-0"

    table = rows(
        mqadmin_in(java49, our_broker, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0"), our_broker.name
    )
    assert sorted(row[1:] for row in table) == [[str(queue), "0"] for queue in range(QUEUES)]
    bodies = [message.body for message in java49.wait_messages("again", 1 + MESSAGES)]
    assert sorted(bodies[1:]) == [b"m-%d" % number for number in range(MESSAGES)]


def test_groups_are_made_shown_and_deleted(java49: ClientDriver, broker: AnyBroker, unique: Unique) -> None:
    group = unique("group")
    mqadmin_in(java49, broker, "updateSubGroup", "-c", broker.cluster, "-g", group, "-r", "3", "-q", "2", "-s", "false")
    shown = settings(mqadmin_in(java49, broker, "getConsumerConfig", "-g", group))
    assert (shown["groupName"], shown["retryMaxTimes"], shown["retryQueueNums"]) == (group, "3", "2")
    assert (shown["consumeEnable"], shown["consumeFromMinEnable"]) == ("false", "false")
    mqadmin_in(java49, broker, "deleteSubGroup", "-c", broker.cluster, "-g", group, "-r", "true")
    assert group not in mqadmin_in(java49, broker, "getConsumerConfig", "-g", group)


def test_settings_and_figures_of_the_broker(
    java49: ClientDriver, broker: AnyBroker, unique: Unique, tmp_path: Path
) -> None:
    for hours in ("48", "72"):
        change = ("updateBrokerConfig", "-b", broker.address, "-k", "fileReservedTime", "-v", hours)
        assert "success" in mqadmin_in(java49, broker, *change)
        assert (
            settings(mqadmin_in(java49, broker, "getBrokerConfig", "-b", broker.address))["fileReservedTime"] == hours
        )
    assert settings(broker.conf_file.read_text())["fileReservedTime"] == "72", "kept for the next start"
    figures = mqadmin_in(java49, broker, "brokerStatus", "-b", broker.address)
    keys = {line.partition(":")[0].strip() for line in figures.splitlines() if ":" in line}
    assert set(FIGURES.split()) <= keys
    (totals,) = rows(mqadmin_in(java49, broker, "clusterList", "-m"), broker.cluster, broker.name)
    assert len(totals) == 6
    for what in ("Metadata", "Configs", "Metrics"):
        mqadmin_in(java49, broker, f"export{what}", "-c", broker.cluster, "-f", str(tmp_path))
        assert broker.name in (text := (tmp_path / f"{what.lower()}.json").read_text()) or "topicConfigTable" in text


# What 4.9.7's own broker lists, without what depends on its store's configuration.
FIGURES = """
    EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity bootTimestamp brokerVersion brokerVersionDesc
    commitLogDirCapacity commitLogDiskRatio commitLogMaxOffset commitLogMinOffset consumeQueueDiskRatio
    dispatchBehindBytes dispatchMaxBuffer earliestMessageTimeStamp getFoundTps getMessageEntireTimeMax getMissTps
    getTotalTps getTransferedTps msgGetTotalTodayMorning msgGetTotalTodayNow msgGetTotalYesterdayMorning
    msgPutTotalTodayMorning msgPutTotalTodayNow msgPutTotalYesterdayMorning pageCacheLockTimeMills
    pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putLatency99
    putLatency999 putMessageAverageSize putMessageDistributeTime putMessageEntireTimeMax putMessageFailedTimes
    putMessageSizeTotal putMessageTimesTotal putTps queryThreadPoolQueueCapacity
    queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize remainHowManyDataToFlush
    remainTransientStoreBufferNumbs runtime sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
    sendThreadPoolQueueSize startAcceptSendRequestTimeStamp
"""


def test_what_our_broker_answers_better(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    """Statistics at once instead of after ten seconds, and refusals that say why."""
    topic, group = unique("topic"), unique("group")
    have_consumed(java49, our_broker, topic, group)
    (stats,) = rows(mqadmin_in(java49, our_broker, "statsAll", "-t", topic), topic, group)
    accumulated, in_tps, out_tps, in_day, out_day = stats[2:]
    assert (accumulated, in_day, out_day) == ("0", str(MESSAGES), str(MESSAGES))
    assert float(in_tps) > 0 < float(out_tps)
    secured = ("updateBrokerConfig", "-b", our_broker.address, "-k", "storePathRootDir", "-v", "/tmp/x")
    assert "CODE: 16  DESC: storePathRootDir cannot be set over the network" in refused(java49, our_broker, *secured)


def test_with_the_tool_of_5_5(java55: ClientDriver, our_broker: OurBroker, unique: Unique, tmp_path: Path) -> None:
    topic, group, listed = unique("topic"), unique("group"), unique("listed")
    have_consumed(java55, our_broker, topic, group)
    progress = mqadmin_in(java55, our_broker, "consumerProgress", "-g", group)
    assert [row[3:7] for row in rows(progress, topic)] == [["2", "2", "0", "0"]] * QUEUES
    assert "Consume Inflight Total: 0" in progress

    groups, topics = tmp_path / "groups.json", tmp_path / "topics.json"
    groups.write_text(json.dumps([{"groupName": listed, "retryMaxTimes": 5}]))
    mqadmin_in(java55, our_broker, "updateSubGroupList", "-b", our_broker.address, "-f", str(groups))
    assert settings(mqadmin_in(java55, our_broker, "getConsumerConfig", "-g", listed))["retryMaxTimes"] == "5"
    topics.write_text(json.dumps([{"topicName": listed, "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}]))
    mqadmin_in(java55, our_broker, "updateTopicList", "-b", our_broker.address, "-f", str(topics))
    route = wire.request(our_broker.namesrv, GET_ROUTEINFO_BY_TOPIC, topic=listed)
    assert json.loads(route.body)["queueDatas"][0]["readQueueNums"] == 3
    ha_status = mqadmin_in(java55, our_broker, "haStatus", "-b", our_broker.address)
    assert rows(ha_status, "#SlaveNum") == [["#SlaveNum", "0"]]
    mqadmin_in(java55, our_broker, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    reset = rows(mqadmin_in(java55, our_broker, "consumerProgress", "-g", group), topic)
    assert [row[4] for row in reset] == ["0"] * QUEUES
