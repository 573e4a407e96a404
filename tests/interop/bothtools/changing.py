"""Command lines that change something, and how both tools see afterwards what became of it.

Each has a topic and groups of its own, `{topic}`, `{group}` and `{other}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tests.interop.bothtools.finding import (
    cells,
    fields,
    matches,
    messages,
    perm_number,
    printed_messages,
    queues_of_route,
    routes,
    settings,
    shown,
    shown_messages,
    values,
)
from tests.interop.bothtools.running import BROKER, CLUSTER, NOT_FOUND, Row


@dataclass(frozen=True)
class Change:
    """`row` is done by each tool in turn, after `topics` were made with two queues each, and mqctl did what is `first`.
    `then` is seen by both; what is `last` is done whatever happens."""

    row: Row
    topics: tuple[str, ...] = ("{topic}",)
    first: tuple[str, ...] = ()
    then: tuple[Row, ...] = ()
    last: tuple[str, ...] = ()


# With two messages in each of two queues.
MOVING: Final = "BothToolsMoving"

# A group that has consumed one message of each queue, with the retry topic from which mqadmin learns where it is.
RETRY_TOPIC: Final = ("%RETRY%{group}",)
MAKE_GROUP: Final = (
    "updateSubGroup -g {group} -b {address}",
    *(f"offset set {{group}} -t {MOVING} -q {queue} --to 1 --yes" for queue in (0, 1)),
)
ORDER: Final = f"-t {{topic}} -m put -v {BROKER}:3"
KEY_VALUE: Final = "-s ORDER_TOPIC_CONFIG -k {topic}"


def works(line: str) -> Row:
    """What it did is seen afterwards."""
    return Row(line, lambda text: "success" in text, lambda rows: True, True)


def changes_writing(command: str) -> Row:
    """It counts all topics that the name server knows, which other tests add to."""

    def by_mqadmin(text: str) -> bool:
        return [int(count) > 0 for count in matches(r"OK, (\d+)$")(text)] == [True]

    def by_mqctl(rows: list[Any]) -> bool:
        return [row["topics"] > 0 for row in rows] == [True]

    return Row(f"{command} -b {BROKER}", by_mqadmin, by_mqctl, True)


def changes_perm(line: str, perm: int) -> Row:
    def by_mqctl(rows: list[Any]) -> list[Any]:
        return [[*(perm_number(row[when]["perm"]) for when in ("before", "after")), row["brokerAddr"]] for row in rows]

    return Row(line, matches(r"from (\d) to (\d) in (\S+) success"), by_mqctl, [[6, perm, "{address}"]])


def moves(line: str, after: int) -> Row:
    by_mqadmin = matches(rf"^{BROKER} +(\d+) +2 +(\d+) +\d+ +(\d+)")
    return Row(line, by_mqadmin, fields("queueId", "before", "after"), [[queue, 1, after] for queue in (0, 1)])


def sends(line: str, pattern: str, status: str, times: int) -> Row:
    return Row(line, matches(pattern), lambda rows: [row[status] for row in rows], ["SEND_OK"] * times)


# -- seen afterwards ------------------------------------------------------------------------------------


def route(write: int, read: int, perm: int) -> Row:
    return Row("topicRoute -t {topic}", queues_of_route, routes, [[BROKER, write, read, perm]])


def progress(group: str, offset: int) -> Row:
    by_mqadmin = matches(rf"{BROKER} +(\d+) +2 +(\d+) ")
    facts = [[queue, offset] for queue in (0, 1)]
    return Row(f"consumerProgress -g {group}", by_mqadmin, fields("queueId", "consumerOffset"), facts)


def order(conf: str) -> Row:
    by_mqadmin = matches(r"orderConf=\[(.*)\]")
    return Row("updateOrderConf -t {topic} -m get", by_mqadmin, lambda rows: [rows[0]["orderConf"]], [conf])


NO_ORDER: Final = Row("updateOrderConf -t {topic} -m get", str.split, list, NOT_FOUND)
NO_TOPIC: Final = Row("topicRoute -t {topic}", str.split, list, NOT_FOUND)
# mqadmin prints nothing about a group that is not there.
NO_GROUP: Final = Row("getConsumerConfig -g {group}", lambda text: text.strip() or NOT_FOUND, list, NOT_FOUND)
GROUP_CONFIG: Final = Row(
    "getConsumerConfig -g {group}",
    settings("retryMaxTimes", "consumeEnable"),
    lambda rows: [rows[0]["retryMaxTimes"], rows[0]["consumeEnable"]],
    [3, False],
)
SENT: Final = Row(
    "printMsg -t {topic}",
    lambda text: [facts[:3] for facts in printed_messages(text)],
    lambda rows: [facts[:3] for facts in messages(rows)],
    [[1, 0, "hello"]],
)
SENT_LABELS: Final = Row(
    f"queryMsgByOffset -t {{topic}} -b {BROKER} -i 1 -o 0",
    lambda text: [facts[1:5] for facts in shown_messages(text)],
    lambda rows: [facts[1:5] for facts in shown(rows)],
    [["tag", "key", 1, 0]],
)


def namesrv_setting(key: str, value: object) -> Row:
    return Row("getNamesrvConfig", settings(key), values(key), [value])


def broker_setting(key: str, value: object) -> Row:
    return Row("getBrokerConfig -b {address}", settings(key), values(key), [value])


# -- the table ------------------------------------------------------------------------------------------

CHANGES: Final = (
    Change(works(f"updateTopic -t {{topic}} -c {CLUSTER} -w 3 -r 4 -p 4"), topics=(), then=(route(3, 4, 4),)),
    Change(changes_perm(f"updateTopicPerm -t {{topic}} -p 4 -c {CLUSTER}", 4), then=(route(2, 2, 4),)),
    Change(changes_perm("updateTopicPerm -t {topic} -p 2 -b {address}", 2), then=(route(2, 2, 2),)),
    Change(works(f"deleteTopic -t {{topic}} -c {CLUSTER}"), then=(NO_TOPIC,)),
    Change(
        changes_writing("wipeWritePerm"),
        then=(route(2, 2, 4),),
        last=(f"addWritePerm -b {BROKER}",),
    ),
    Change(
        changes_writing("addWritePerm"),
        first=(f"wipeWritePerm -b {BROKER}",),
        then=(route(2, 2, 6),),
        last=(f"addWritePerm -b {BROKER}",),
    ),
    Change(works(f"updateKvConfig {KEY_VALUE} -v {BROKER}:2"), topics=(), then=(order(f"{BROKER}:2"),)),
    Change(works(f"deleteKvConfig {KEY_VALUE}"), first=(f"updateOrderConf {ORDER}",), topics=(), then=(NO_ORDER,)),
    Change(works(f"updateOrderConf {ORDER}"), topics=(), then=(order(f"{BROKER}:3"),)),
    Change(
        works("updateOrderConf -t {topic} -m delete"), first=(f"updateOrderConf {ORDER}",), topics=(), then=(NO_ORDER,)
    ),
    Change(
        works("updateNamesrvConfig -k orderMessageEnable -v true"),
        topics=(),
        then=(namesrv_setting("orderMessageEnable", True),),
        last=("updateNamesrvConfig -k orderMessageEnable -v false",),
    ),
    Change(
        works("updateBrokerConfig -b {address} -k fileReservedTime -v 49"),
        topics=(),
        then=(broker_setting("fileReservedTime", 49),),
        last=("updateBrokerConfig -b {address} -k fileReservedTime -v 72",),
    ),
    Change(works("cleanExpiredCQ -b {address}"), then=(route(2, 2, 6),)),
    Change(works(f"cleanUnusedTopic -c {CLUSTER}"), then=(route(2, 2, 6),)),
    Change(works("deleteExpiredCommitLog"), then=(route(2, 2, 6),)),
    Change(
        Row(
            f"sendMessage -t {{topic}} -p hello -k key -c tag -b {BROKER} -i 1",
            cells(BROKER, 1, 2),
            fields("queueId", "sendStatus"),
            [[1, "SEND_OK"]],
        ),
        then=(SENT, SENT_LABELS),
    ),
    Change(sends(f"sendMsgStatus -b {BROKER} -c 2 -s 16", r"sendStatus=(\w+)", "sendResult", 2), topics=()),
    Change(
        Row(
            "checkMsgSendRT -t {topic} -a 3 -s 16",
            lambda text: [sent == "true" for [sent] in cells(BROKER, 2)(text)],
            lambda rows: [row["sendStatus"] == "SEND_OK" for row in rows],
            [True] * 3,
        ),
    ),
    Change(
        moves(f"resetOffsetByTime -g {{group}} -t {MOVING} -s 0", 0),
        topics=RETRY_TOPIC,
        first=MAKE_GROUP,
        then=(progress("{group}", 0),),
    ),
    Change(
        moves(f"resetOffsetByTime -g {{group}} -t {MOVING} -s now -f true -c", 2),
        topics=RETRY_TOPIC,
        first=MAKE_GROUP,
        then=(progress("{group}", 2),),
    ),
    Change(
        moves(f"skipAccumulatedMessage -g {{group}} -t {MOVING} -f true", 2),
        topics=RETRY_TOPIC,
        first=MAKE_GROUP,
        then=(progress("{group}", 2),),
    ),
    Change(
        works(f"cloneGroupOffset -s {{group}} -d {{other}} -t {MOVING} -o true"),
        topics=("%RETRY%{group}", "%RETRY%{other}"),
        first=(*MAKE_GROUP, "updateSubGroup -g {other} -b {address}"),
        then=(progress("{other}", 1),),
    ),
    Change(works(f"updateSubGroup -g {{group}} -c {CLUSTER} -r 3 -s false"), topics=(), then=(GROUP_CONFIG,)),
    Change(
        works(f"deleteSubGroup -g {{group}} -c {CLUSTER} -r true"),
        topics=RETRY_TOPIC,
        first=MAKE_GROUP,
        then=(NO_GROUP,),
    ),
)
