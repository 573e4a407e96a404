"""mqadmin's commands about topics. How to read a row: see translate.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.mqadmin.translate import Old

TOPICS: Final = {
    # Unlike mqadmin's, ours leaves alone what is not given.
    "updateTopic": Old(
        "topic update",
        {
            "t topic": "TOPIC",
            "b brokerAddr": "--broker",
            "c clusterName": "--cluster",
            "r readQueueNums": "--read-queues",
            "w writeQueueNums": "--write-queues",
            "p perm": "--perm",
            "o order": "--order/--no-order",
            "u unit": "--unit/--no-unit",
            "s hasUnitSub": "--unit-sub/--no-unit-sub",
        },
        always="--yes",
    ),
    "deleteTopic": Old("topic delete", {"t topic": "TOPIC", "c clusterName": "--cluster"}, always="--yes"),
    "updateTopicPerm": Old(
        "topic perm",
        {"t topic": "TOPIC", "p perm": "PERM", "b brokerAddr": "--broker", "c clusterName": "--cluster"},
        always="--yes",
    ),
    "topicRoute": Old("topic route", {"t topic": "TOPIC", "l list": "!"}),
    "topicStatus": Old("topic stats", {"t topic": "TOPIC", "c cluster": ""}),
    "topicClusterList": Old("topic clusters", {"t topic": "TOPIC"}),
    "topicList": Old("topic list", {"c clusterModel": "--groups!"}),
    "updateOrderConf": Old(
        "topic order", {"m method": "METHOD", "t topic": "TOPIC", "v orderConf": "CONF"}, asks_for="delete"
    ),
    "allocateMQ": Old("topic allocate", {"t topic": "TOPIC", "i ipList": "--clients"}),
    "statsAll": Old("topic stats", {"t topic": "TOPIC", "a activeTopic": "--active!"}, always="--all"),
    "updateTopicList": Old(
        "topic apply",
        {"b brokerAddr": "--broker", "c clusterName": "--cluster", "f filename": "--file"},
        always="--yes",
    ),
}
