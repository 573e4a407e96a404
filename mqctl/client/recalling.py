"""Taking a delayed message back before it is delivered, as producers of RocketMQ 5 can."""

from __future__ import annotations

import asyncio

from mqctl.client.engine import Engine
from mqctl.errors import ConfigError, NoBroker, RequestTimeout
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
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    try:
        async with asyncio.timeout_at(deadline):
            await engine.routes.find(handle.topic)
    except TimeoutError:
        raise RequestTimeout(f"no name server said within {timeout:g} s where {handle.topic} is") from None
    address = engine.routes.master(handle.broker_name)
    if address is None:
        raise NoBroker(f"no master of broker {handle.broker_name} is running, which has the message")
    header = RecallMessageHeader(topic=handle.topic, recall_handle=text, producer_group=group)
    command = Command(RequestCode.RECALL_MESSAGE, ext=header_fields(header))
    await engine.call(address, command, max(0.0, deadline - loop.time()))
    return handle.unique_key
