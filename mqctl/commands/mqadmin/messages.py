"""mqadmin's commands about messages. How to read a row: see translate.py.

What consumed a message is a command of its own here, `msg track`; mqadmin prints it with each message.
"""

from __future__ import annotations

from typing import Final

from mqctl.commands.mqadmin.translate import Old

# All with the id; without these flags only the oldest. From 4.9.7 on mqadmin takes -a, but its client hides the others.
_ALL_OF_ONE_ID: Final = Old(
    "msg query",
    {
        "t topic": "TOPIC",
        "i msgId": "--key",
        "a showAll": "!",
        "s startTime": "--since",
        "e endTime": "--until",
        "c cluster": "",
    },
)

MESSAGES: Final = {
    "queryMsgById": Old(
        "msg get",
        {
            "i msgId": "ID",
            "t topic": "--topic",
            "g consumerGroup": "--push-group",
            "d clientId": "--push-client",
            "s sendMessage": "--resend/",
            "u unitName": "",
            "f bodyFormat": "",
            "c cluster": "",
        },
    ),
    "queryMsgByKey": Old(
        "msg query",
        {
            "t topic": "TOPIC",
            "k msgKey": "--key",
            "b beginTimestamp": "--since",
            "e endTimestamp": "--until",
            "m maxNum": "--max",
            "c cluster": "",
        },
    ),
    "queryMsgByUniqueKey": Old(
        "msg get",
        {
            "i msgId": "ID",
            "t topic": "--topic",
            "g consumerGroup": "--push-group",
            "d clientId": "--push-client",
            "c cluster": "",
        },
        instead={("a showAll", "s startTime", "e endTime"): _ALL_OF_ONE_ID},
    ),
    "queryMsgByOffset": Old(
        "msg get",
        {
            "t topic": "--topic",
            "b brokerName": "--broker",
            "i queueId": "--queue",
            "o offset": "--offset",
            "f bodyFormat": "",
            "r routeTopic": "",
        },
    ),
    "queryMsgTraceById": Old(
        "msg trace",
        {
            "i msgId": "ID",
            "t traceTopic": "--trace-topic",
            "b beginTimestamp": "",
            "e endTimestamp": "",
            "c maxNum": "",
        },
    ),
    "printMsg": Old(
        "msg print",
        {
            "t topic": "TOPIC",
            "c charsetName": "",
            "s subExpression": "--tag",
            "b beginTimestamp": "--since",
            "e endTimestamp": "--until",
            "d printBody": "",
            "l lmqParentTopic": "",
        },
    ),
    "printMsgByQueue": Old(
        "msg print",
        {
            "t topic": "TOPIC",
            "a brokerName": "--broker",
            "i queueId": "--queue",
            "c charsetName": "",
            "s subExpression": "--tag",
            "b beginTimestamp": "--since",
            "e endTimestamp": "--until",
            "p print msg": "",
            "d printBody": "",
            "f calculate": "--by-tag/",
        },
    ),
    "consumeMessage": Old(
        "msg print --max=128",
        {
            "t topic": "TOPIC",
            "b brokerName": "--broker",
            "i queueId": "--queue",
            "o offset": "--offset",
            "g consumerGroup": "",
            "s beginTimestamp": "--since",
            "e endTimestamp": "--until",
            "c MessageNumber": "--max",
        },
    ),
    "sendMessage": Old(
        "msg send",
        {
            "t topic": "TOPIC",
            "p body": "--text",
            "k key": "--key",
            "c tags": "--tag",
            "b broker": "--broker",
            "i qid": "--queue",
            "m msgTraceEnable": "--trace/",
        },
    ),
    "checkMsgSendRT": Old("msg rt", {"t topic": "TOPIC", "a amount": "--count", "s size": "--size"}),
    "queryCq": Old(
        "msg cq",
        {
            "t topic": "TOPIC",
            "q queue": "--queue",
            "i index": "--from",
            "c count": "--count",
            "b broker": "--broker",
            "g consumer": "--group",
        },
    ),
}
