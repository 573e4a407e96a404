"""Message trace: where each message went and how long it took, as lines in RMQ_SYS_TRACE_TOPIC.

Written as Java's TraceDataEncoder does, so that `mqadmin queryMsgTraceById` and consoles read it. Lines of half
a second travel in one message, whose keys are the ids and keys of what it tells about.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from typing import Final

from mqctl.client.delivery import Delivery
from mqctl.client.engine import Engine
from mqctl.client.outgoing import Encoder, Outgoing
from mqctl.client.results import SendResult, SendStatus
from mqctl.errors import MqError
from mqctl.names import TRACE_TOPIC
from mqctl.remoting.message import Message
from mqctl.store.properties import DELAY, KEYS, TAGS, TIMER_DELAY_MS, TIMER_DELIVER_MS, get_property
from mqctl.store.record import SYS_TRANSACTION_PREPARED

log = logging.getLogger(__name__)

DEFAULT_REGION: Final = "DefaultRegion"
FLUSH_SECONDS: Final = 0.5
SEND_TIMEOUT_S: Final = 5.0
# Lines that wait; more are dropped, since a trace must not hold up what it traces.
MAX_WAITING: Final = 2048
# Java's limit for one message of traces is 128,000 bytes.
MAX_LINES_PER_MESSAGE: Final = 100

_FIELD: Final = "\x01"
_END: Final = "\x02"

# The ordinals of Java's MessageType.
_NORMAL, _HALF, _COMMIT, _DELAY = range(4)

_groups: Final = itertools.count(1)


class Tracer:
    """Loop only, but for `add`. Sends with a group of its own over the engine of the client that it watches."""

    def __init__(self, engine: Engine, group: str, *, consumes: bool = False) -> None:
        self._group = group
        self._engine = engine
        kind = "CONSUME" if consumes else "PRODUCE"
        self._encoder = Encoder(f"_INNER_TRACE_PRODUCER-{group}-{kind}-{next(_groups)}")
        self._delivery = Delivery(engine, self._encoder, retries=2, faults=None)
        self._waiting: deque[tuple[str, list[str]]] = deque()

    def start(self) -> None:
        self._engine.every(FLUSH_SECONDS, self.flush)

    def stored(self, outgoing: Outgoing, result: SendResult, address: str, began: float, region: str) -> None:
        """A broker took a message."""
        self.add(
            _keys(outgoing),
            "Pub",
            int(began * 1000),
            region or DEFAULT_REGION,
            self._group,
            outgoing.topic,
            result.msg_id,
            get_property(outgoing.properties, TAGS) or "",
            get_property(outgoing.properties, KEYS) or "",
            address,
            len(outgoing.body),
            int((time.time() - began) * 1000),
            _message_type(outgoing),
            result.offset_msg_id,
            "true" if result.status is SendStatus.SEND_OK else "false",
        )

    def transaction_ended(
        self, outgoing: Outgoing, address: str, state: str, transaction_id: str, *, from_check: bool
    ) -> None:
        self.add(
            _keys(outgoing),
            "EndTransaction",
            time.time_ns() // 1_000_000,
            DEFAULT_REGION,
            self._group,
            outgoing.topic,
            outgoing.msg_id,
            get_property(outgoing.properties, TAGS) or "",
            get_property(outgoing.properties, KEYS) or "",
            address,
            _COMMIT,
            transaction_id,
            state,
            "true" if from_check else "false",
        )

    async def flush(self) -> None:
        """Sends what waits, in so much time as one message may take. What cannot be sent is lost, and the log says so;
        the rest waits for the next time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SEND_TIMEOUT_S
        while self._waiting and (left := deadline - loop.time()) > 0:
            lines = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_LINES_PER_MESSAGE))]
            keys = {key for _, names in lines for key in names}
            message = Message(TRACE_TOPIC, "".join(line for line, _ in lines).encode(), keys=sorted(keys))
            try:
                await self._delivery.deliver(self._encoder.single(message), left)
            except MqError as error:
                log.warning("traces of %d messages are lost: %s", len(lines), error.message)
                return

    async def close(self) -> None:
        """The last time: whoever closes a client waits for this."""
        await self.flush()
        if self._waiting:
            log.warning("traces of %d more messages are lost: the client is closed", len(self._waiting))

    def add(self, keys: list[str], *fields: object) -> None:
        """A line, to be found by these keys. Any thread may call this."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((_FIELD.join(map(str, fields)) + _END, keys))


def _keys(outgoing: Outgoing) -> list[str]:
    return [*outgoing.msg_id.split(","), *(get_property(outgoing.properties, KEYS) or "").split()]


def _message_type(outgoing: Outgoing) -> int:
    if outgoing.sys_flag & SYS_TRANSACTION_PREPARED:
        return _HALF
    delayed = any(get_property(outgoing.properties, name) for name in (DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS))
    return _DELAY if delayed else _NORMAL
