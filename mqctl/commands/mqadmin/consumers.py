"""mqadmin's commands about consumers, producers and offsets. How to read a row: see translate.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.mqadmin.translate import Old

# What 5.x can do for one queue, with -b and -q. Consumers that run would write their own offsets over it.
_ONE_QUEUE: Final = {
    "g group": "GROUP",
    "t topic": "--topic",
    "b broker": "--broker",
    "q queue": "--queue",
    "f force": "",
    "c cluster": "?",
}

CONSUMERS: Final = {
    "consumerProgress": Old(
        "consumer progress",
        {"g groupName": "GROUP", "s showClientIP": "--clients/", "t topicName": "--topic", "c cluster": "--cluster"},
    ),
    "consumerStatus": Old(
        "consumer status",
        {"g consumerGroup": "GROUP", "i clientId": "--client", "b brokerAddr": "", "s jstack": "--stacks!"},
    ),
    "consumerConnection": Old("consumer connections", {"g consumerGroup": "GROUP", "b brokerAddr": ""}),
    "producerConnection": Old("producer connections", {"g producerGroup": "GROUP", "t topic": "--topic"}),
    "producer": Old("producer list", {"b broker": "--broker"}),
    "getConsumerConfig": Old("consumer config", {"g groupName": "GROUP"}),
    # Unlike mqadmin's, ours leaves alone what is not given.
    "updateSubGroup": Old(
        "consumer update",
        {
            "g groupName": "GROUP",
            "b brokerAddr": "--broker",
            "c clusterName": "--cluster",
            "s consumeEnable": "--enable/--disable",
            "m consumeFromMinEnable": "--from-min/--no-from-min",
            "d consumeBroadcastEnable": "--broadcast/--no-broadcast",
            "q retryQueueNums": "--retry-queues",
            "r retryMaxTimes": "--retry-max",
            "i brokerId": "--broker-id",
            "w whichBrokerWhenConsumeSlowly": "--slow-broker",
            "a notifyConsumerIdsChanged": "--notify/--no-notify",
            "o consumeMessageOrderly": "--orderly/--no-orderly",
        },
        always="--yes",
    ),
    "updateSubGroupList": Old(
        "consumer apply",
        {"b brokerAddr": "--broker", "c clusterName": "--cluster", "f filename": "--file"},
        always="--yes",
    ),
    # With -c mqadmin deletes the retry and dead letter topics as well.
    "deleteSubGroup": Old(
        "consumer delete",
        {
            "g groupName": "GROUP",
            "b brokerAddr": "--broker",
            "c clusterName": "--cluster&--topics",
            "r removeOffset": "--offsets/",
        },
        always="--yes",
    ),
    "resetOffsetByTime": Old(
        "offset reset",
        {"g group": "GROUP", "t topic": "--topic", "s timestamp": "--to", "f force": "", "c cluster": "?"},
        always="--yes",
        instead={
            ("o offset",): Old("offset set", {**_ONE_QUEUE, "o offset": "--to", "s timestamp": ""}, always="--yes"),
            ("q queue",): Old("offset set", {**_ONE_QUEUE, "s timestamp": "--to-time"}, always="--yes"),
        },
    ),
    "skipAccumulatedMessage": Old(
        "offset skip", {"g group": "GROUP", "t topic": "--topic", "f force": "", "c cluster": ""}, always="--yes"
    ),
    # mqadmin copies all topics, and uses -t only to find brokers.
    "cloneGroupOffset": Old(
        "offset clone",
        {"s srcGroup": "SOURCE", "d destGroup": "TARGET", "t topic": "", "o offline": ""},
        always="--force --yes",
    ),
    "startMonitoring": Old("monitor", {}),
}
