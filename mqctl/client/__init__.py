"""A RocketMQ client: `from mqctl.client import Producer, Message`. For scripts: `mqctl.client.blocking`.

Names are imported when first used, so that commands of `mqctl` load only what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mqctl.client.held import Limits as Limits
    from mqctl.client.idempotence import Idempotence as Idempotence
    from mqctl.client.idempotence import KeyStore as KeyStore
    from mqctl.client.idempotence import Seen as Seen
    from mqctl.client.idempotence import SqliteKeys as SqliteKeys
    from mqctl.client.listening import RetryLater as RetryLater
    from mqctl.client.offsets import ConsumeFrom as ConsumeFrom
    from mqctl.client.offsets import Start as Start
    from mqctl.client.producer import Producer as Producer
    from mqctl.client.pull import PullConsumer as PullConsumer
    from mqctl.client.push import PushConsumer as PushConsumer
    from mqctl.client.rebalance import Strategy as Strategy
    from mqctl.client.rebalance import averagely as averagely
    from mqctl.client.rebalance import by_config as by_config
    from mqctl.client.rebalance import by_machine_room as by_machine_room
    from mqctl.client.rebalance import circle as circle
    from mqctl.client.rebalance import consistent_hash as consistent_hash
    from mqctl.client.rebalance import machine_room_nearby as machine_room_nearby
    from mqctl.client.results import SendResult as SendResult
    from mqctl.client.results import SendStatus as SendStatus
    from mqctl.client.subscriptions import Sql as Sql
    from mqctl.client.transactions import TransactionListener as TransactionListener
    from mqctl.client.transactions import TransactionProducer as TransactionProducer
    from mqctl.client.transactions import TransactionResult as TransactionResult
    from mqctl.client.transactions import TransactionState as TransactionState
    from mqctl.errors import ConfigError as ConfigError
    from mqctl.errors import ConnectionFailed as ConnectionFailed
    from mqctl.errors import MqError as MqError
    from mqctl.errors import NoBroker as NoBroker
    from mqctl.errors import NotFound as NotFound
    from mqctl.errors import RequestTimeout as RequestTimeout
    from mqctl.errors import ResponseError as ResponseError
    from mqctl.errors import RetriableResponse as RetriableResponse
    from mqctl.errors import SpoolFull as SpoolFull
    from mqctl.remoting.bodies import MessageQueue as MessageQueue
    from mqctl.remoting.compression import Compression as Compression
    from mqctl.remoting.message import Message as Message
    from mqctl.remoting.message import ReceivedMessage as ReceivedMessage
    from mqctl.remoting.signing import Credentials as Credentials

_NAMES: Final = {
    "ConsumeFrom": "mqctl.client.offsets",
    "Idempotence": "mqctl.client.idempotence",
    "KeyStore": "mqctl.client.idempotence",
    "Seen": "mqctl.client.idempotence",
    "SqliteKeys": "mqctl.client.idempotence",
    "Limits": "mqctl.client.held",
    "PullConsumer": "mqctl.client.pull",
    "PushConsumer": "mqctl.client.push",
    "RetryLater": "mqctl.client.listening",
    "Start": "mqctl.client.offsets",
    "Strategy": "mqctl.client.rebalance",
    "averagely": "mqctl.client.rebalance",
    "by_config": "mqctl.client.rebalance",
    "by_machine_room": "mqctl.client.rebalance",
    "circle": "mqctl.client.rebalance",
    "consistent_hash": "mqctl.client.rebalance",
    "machine_room_nearby": "mqctl.client.rebalance",
    "Sql": "mqctl.client.subscriptions",
    "Producer": "mqctl.client.producer",
    "SendResult": "mqctl.client.results",
    "SendStatus": "mqctl.client.results",
    "TransactionListener": "mqctl.client.transactions",
    "TransactionProducer": "mqctl.client.transactions",
    "TransactionResult": "mqctl.client.transactions",
    "TransactionState": "mqctl.client.transactions",
    "ConfigError": "mqctl.errors",
    "ConnectionFailed": "mqctl.errors",
    "MqError": "mqctl.errors",
    "NoBroker": "mqctl.errors",
    "NotFound": "mqctl.errors",
    "RequestTimeout": "mqctl.errors",
    "ResponseError": "mqctl.errors",
    "RetriableResponse": "mqctl.errors",
    "SpoolFull": "mqctl.errors",
    "MessageQueue": "mqctl.remoting.bodies",
    "Compression": "mqctl.remoting.compression",
    "Message": "mqctl.remoting.message",
    "ReceivedMessage": "mqctl.remoting.message",
    "Credentials": "mqctl.remoting.signing",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__} has no {name}")
    return getattr(import_module(_NAMES[name]), name)
