"""Taking a delayed message back before it is delivered, as producers of RocketMQ 5 can."""

from __future__ import annotations

from mqctl.client.engine import Engine
from mqctl.errors import ConfigError, NoBroker
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import RecallMessageHeader
from mqctl.remoting.recallhandle import RecallHandle


async def recall(engine: Engine, group: str, text: str, timeout: float) -> str:
    """Returns the id of the message. Raises ConfigError for a text that is no handle, NoBroker while its broker is
    gone, ResponseError when it is too late."""
    try:
        handle = RecallHandle.decode(text)
    except ValueError as error:
        raise ConfigError(f"{text[:64]!r}: {error}", hint="use recall_handle of the result of a send") from None
    await engine.routes.find(handle.topic)
    address = engine.routes.master(handle.broker_name)
    if address is None:
        raise NoBroker(f"no master of broker {handle.broker_name} is running, which has the message")
    header = RecallMessageHeader(topic=handle.topic, recall_handle=text, producer_group=group)
    await engine.call(address, Command(RequestCode.RECALL_MESSAGE, ext=header_fields(header)), timeout)
    return handle.unique_key
