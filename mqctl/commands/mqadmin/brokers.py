"""mqadmin's commands about clusters, brokers and name servers. How to read a row: see translate.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.mqadmin.translate import Old

_WHERE: Final = {"b brokerAddr": "--broker", "c clusterName": "--cluster"}
_WHERE_TO_CLEAN: Final = {"b brokerAddr": "--broker", "c cluster": "--cluster"}

BROKERS: Final = {
    "clusterList": Old(
        "cluster list", {"m moreStats": "--totals!", "i interval": "--watch", "c clusterName": "--cluster"}
    ),
    "haStatus": Old("broker ha", {"b brokerAddr": "BROKER", "c clusterName": "--cluster", "i interval": "--watch"}),
    # mqadmin's never ends; ours does unless -i says how often.
    "clusterRT": Old(
        "cluster rt",
        {
            "a amount": "--count",
            "s size": "--size",
            "c cluster": "--cluster",
            "p print log": "",
            "m machine room": "",
            "i interval": "--watch",
        },
    ),
    "brokerStatus": Old("broker status", {"b brokerAddr": "BROKER", "c clusterName": "--cluster"}),
    "brokerConsumeStats": Old(
        "broker consume-stats",
        {"b brokerAddr": "BROKER", "t timeoutMillis": "", "l level": "--min-diff", "o order": "--order/"},
    ),
    "getBrokerConfig": Old("broker config get", _WHERE),
    # mqadmin asks no name server whether -b is the address of a master.
    "updateBrokerConfig": Old(
        "broker config set",
        {
            "b brokerAddr": "--broker&--slaves",
            "c clusterName": "--cluster",
            "a updateAllBroker": "&--slaves",
            "k key": "KEY=",
            "v value": "VALUE",
        },
        always="--yes",
    ),
    "wipeWritePerm": Old("broker wipe-write-perm", {"b brokerName": "NAME"}, always="--yes"),
    "addWritePerm": Old("broker add-write-perm", {"b brokerName": "NAME"}, always="--yes"),
    "cleanExpiredCQ": Old("broker clean-expired-cq", _WHERE_TO_CLEAN, always="--yes"),
    "deleteExpiredCommitLog": Old("broker delete-expired-commitlog", _WHERE_TO_CLEAN, always="--yes"),
    "cleanUnusedTopic": Old("broker clean-unused-topics", _WHERE_TO_CLEAN, always="--yes"),
    "sendMsgStatus": Old("broker send-test", {"b brokerName": "NAME", "s messageSize": "--size", "c count": "--count"}),
    "exportMetadata": Old(
        "cluster export metadata",
        {
            "c clusterName": "--cluster",
            "b brokerAddr": "--broker",
            "t topic": "--topics!",
            "g subscriptionGroup": "--groups!",
            "s specialTopic": "--special!",
            "f filePath": "--folder",
        },
    ),
    "exportConfigs": Old("cluster export configs", {"c clusterName": "--cluster", "f filePath": "--folder"}),
    "exportMetrics": Old("cluster export metrics", {"c clusterName": "--cluster", "f filePath": "--folder"}),
    "getNamesrvConfig": Old("namesrv config get", {}),
    "updateNamesrvConfig": Old("namesrv config set", {"k key": "KEY=", "v value": "VALUE"}, always="--yes"),
    "updateKvConfig": Old("namesrv kv put", {"s namespace": "NAMESPACE", "k key": "KEY", "v value": "VALUE"}),
    "deleteKvConfig": Old("namesrv kv delete", {"s namespace": "NAMESPACE", "k key": "KEY"}, always="--yes"),
}
