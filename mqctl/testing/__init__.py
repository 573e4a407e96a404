"""A RocketMQ cluster inside a test: a real name server and a real broker, gone when the block ends.

    with mqctl.testing.broker() as mq:
        mq.create_topic("orders", queues=4)
        ...                                     # any RocketMQ client, with mq.namesrv as its name server

Under pytest, with mqctl installed, the fixture `mqctl_broker` is the same, one for each test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqctl.testing.embedded import EmbeddedBroker, broker

__all__ = ["EmbeddedBroker", "broker"]


def __getattr__(name: str) -> Any:
    # Loaded when used: pytest imports this package for its plugin, in runs that need no broker as well.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mqctl.testing import embedded

    return getattr(embedded, name)
