"""Command lines that read, with what both tools must find at both servers."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.interop.bothtools.finding import (
    cells,
    fields,
    matches,
    messages,
    printed_messages,
    queues_of_route,
    routes,
    settings,
    shown,
    shown_messages,
    values,
)
from tests.interop.bothtools.running import BROKER, CLUSTER, NOT_FOUND, Row

TOPIC: Final = "BothToolsRead"
GROUP: Final = "BothToolsReaders"
# Two in each of two queues; the group has consumed one of queue 0 and all of queue 1.
BODIES: Final = ("m-0", "m-1", "m-2", "m-3")
FIRST_QUEUE: Final = [[0, 0, "m-0", "{id0}"], [0, 1, "m-2", "{id2}"]]
SECOND_QUEUE: Final = [[1, 0, "m-1", "{id1}"], [1, 1, "m-3", "{id3}"]]
ALL: Final = FIRST_QUEUE + SECOND_QUEUE
SECOND: Final = [[TOPIC, "a", "k1", 1, 0, "{log1}"]]


def has_topic(rows: list[Any]) -> bool:
    return TOPIC in [row["topic"] for row in rows]


def queue_counts(text: str) -> list[Any]:
    """mqadmin deals out queues in any order, clients and ours by number, so only how many each gets is a fact."""
    return sorted([client, len(queues)] for client, queues in json.loads(text)["result"].items())


READS: Final = (
    Row(
        "clusterList",
        cells(CLUSTER, 1, 2, 3, 4),
        fields("brokerName", "brokerId", "brokerAddr", "version", cluster=CLUSTER),
        [[BROKER, 0, "{address}", "V4_9_7"]],
    ),
    Row("clusterList -m", cells(CLUSTER, 1), fields("brokerName", cluster=CLUSTER), [[BROKER]]),
    Row(
        "brokerStatus -b {address}",
        settings("brokerVersionDesc", "commitLogMinOffset", between=":"),
        values("brokerVersionDesc", "commitLogMinOffset"),
        ["V4_9_7", 0],
    ),
    Row(
        "getBrokerConfig -b {address}",
        settings("brokerName", "brokerClusterName", "listenPort"),
        values("brokerName", "brokerClusterName", "listenPort"),
        [BROKER, CLUSTER, "{port}"],
    ),
    Row(
        "getNamesrvConfig",
        settings("listenPort", "orderMessageEnable"),
        values("listenPort", "orderMessageEnable"),
        ["{namesrv_port}", False],
    ),
    Row("topicList", lambda text: TOPIC in text.split(), has_topic, True),
    Row(
        "topicList -c",
        matches(rf"^{CLUSTER} +{TOPIC} +(\S+)"),
        lambda rows: [group for row in rows if row["topic"] == TOPIC for group in row["groups"]],
        [GROUP],
    ),
    Row(f"topicClusterList -t {TOPIC}", str.split, lambda rows: [row["cluster"] for row in rows], [CLUSTER]),
    Row("topicClusterList -t NoSuchTopic", str.split, list, NOT_FOUND),
    Row(f"topicRoute -t {TOPIC}", queues_of_route, routes, [[BROKER, 2, 2, 6]]),
    Row(
        f"topicStatus -t {TOPIC}",
        cells(BROKER, 1, 2, 3),
        fields("queueId", "minOffset", "maxOffset"),
        [[0, 0, 2], [1, 0, 2]],
    ),
    Row(
        f"allocateMQ -t {TOPIC} -i 10.0.0.1,10.0.0.2,10.0.0.3",
        queue_counts,
        lambda rows: [[row["client"], len(row["queues"])] for row in rows],
        [["10.0.0.1", 1], ["10.0.0.2", 1], ["10.0.0.3", 0]],
    ),
    Row(f"statsAll -t {TOPIC}", cells(TOPIC, 1, 2), fields("group", "diff"), [[GROUP, 1]]),
    Row("statsAll", cells(TOPIC, 1, 2), fields("group", "diff", topic=TOPIC), [[GROUP, 1]]),
    Row(
        "brokerConsumeStats -b {address} -t 5000 -l 1 -o false",
        cells(TOPIC, 1, 3, 4, 5, 6),
        fields("group", "queueId", "brokerOffset", "consumerOffset", "diff", topic=TOPIC),
        [[GROUP, 0, 2, 1, 1]],
    ),
    Row(
        f"consumerProgress -g {GROUP}",
        cells(TOPIC, 1, 2, 3, 4, 5),
        fields("brokerName", "queueId", "brokerOffset", "consumerOffset", "diff", topic=TOPIC),
        [[BROKER, 0, 2, 1, 1], [BROKER, 1, 2, 2, 0]],
    ),
    Row("consumerProgress", cells(GROUP, 1, 4), fields("clients", "diff", group=GROUP), [[0, 1]]),
    Row(
        f"getConsumerConfig -g {GROUP}",
        lambda text: [settings("retryMaxTimes", "consumeEnable", "consumeFromMinEnable")(text)],
        fields("retryMaxTimes", "consumeEnable", "consumeFromMinEnable"),
        [[7, True, False]],
    ),
    Row(f"printMsg -t {TOPIC}", printed_messages, messages, ALL),
    Row(f"printMsg -t {TOPIC} -s 'b || c'", printed_messages, messages, [FIRST_QUEUE[1], SECOND_QUEUE[1]]),
    Row(f"printMsg -t {TOPIC} -b 0", printed_messages, messages, ALL),
    Row(f"printMsgByQueue -t {TOPIC} -a {BROKER} -i 1 -p true -d true", printed_messages, messages, SECOND_QUEUE),
    Row(
        f"printMsgByQueue -t {TOPIC} -a {BROKER} -i 1 -b {{stored3}} -p true -d true",
        printed_messages,
        messages,
        SECOND_QUEUE[1:],
    ),
    Row(
        f"printMsgByQueue -t {TOPIC} -a {BROKER} -i 0 -f true",
        matches(r"^Tag: (\S+) +Count: (\d+)$"),
        fields("tags", "messages"),
        [["a", 1], ["b", 1]],
    ),
    Row(f"consumeMessage -t {TOPIC}", printed_messages, messages, ALL),
    Row(f"consumeMessage -t {TOPIC} -b {BROKER} -i 1 -c 1 -g {GROUP}", printed_messages, messages, SECOND_QUEUE[:1]),
    Row(f"consumeMessage -t {TOPIC} -b {BROKER} -i 0 -o 1", printed_messages, messages, FIRST_QUEUE[1:]),
    Row("queryMsgById -i {offset1}", shown_messages, shown, SECOND),
    Row(f"queryMsgByUniqueKey -t {TOPIC} -i {{id1}}", shown_messages, shown, SECOND),
    Row(f"queryMsgByOffset -t {TOPIC} -b {BROKER} -i 1 -o 0", shown_messages, shown, SECOND),
    Row(
        f"queryMsgByKey -t {TOPIC} -k k1",
        matches(r"^(\w{32,}) +(\d+) +(\d+)$"),
        fields("msgId", "queueId", "queueOffset"),
        [["{id1}", 1, 0]],
    ),
    Row(
        f"queryCq -t {TOPIC} -q 1 -i 1 -c 1 -b {{address}}",
        matches(r"physicOffset=(\d+), physicSize=\d+, tagsCode=(\d+)"),
        fields("physicOffset", "tagsCode"),
        [["{log3}", ord("b")]],
    ),
)
