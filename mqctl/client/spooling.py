"""When messages go to the spool, and how they leave it again: in the order they came, before any newer one."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from mqctl.client.delivery import Delivery
from mqctl.client.engine import Engine
from mqctl.client.outgoing import Outgoing
from mqctl.client.pace import Pace
from mqctl.client.replay import Replay
from mqctl.client.results import SendResult, SendStatus
from mqctl.client.spool import Entry, Spool
from mqctl.errors import ConnectionFailed, NoBroker, RequestTimeout, SpoolFull, StoreError
from mqctl.remoting.bodies import MessageQueue

log = logging.getLogger(__name__)

# Messages replayed between two marks in the file, which is how many come twice at most after a kill.
REPLAY_STEP: Final = 64
# Before the file is looked into again for what a sender is still writing.
PAUSE_SECONDS: Final = 0.2


@dataclass(slots=True)
class _Batch:
    """Messages that will share one sync of the disk."""

    packed: list[bytes] = field(default_factory=list)
    written: asyncio.Task[None] | None = None


class Spooling:
    """Loop only. As long as the spool holds a message, every new one goes behind it."""

    def __init__(self, spool: Spool, delivery: Delivery, engine: Engine) -> None:
        self._spool = spool
        self._delivery = delivery
        self._engine = engine
        self._batch = _Batch()
        self._writing = asyncio.Lock()
        self._reserved_bytes = 0
        self._holds_messages = False
        self._pace = Pace()

    async def start(self) -> None:
        """Raises StoreError when the file cannot be used."""
        await asyncio.to_thread(self._spool.open)
        if self._spool.pending:
            log.warning("spool %s: %d messages of an earlier run", self._spool.path, self._spool.pending)
            self._begin_replay()

    async def close(self) -> None:
        """What was not replayed stays in the file for the next start."""
        async with self._writing:
            await asyncio.to_thread(self._spool.close)

    async def deliver(self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None) -> SendResult:
        """Raises SpoolFull when neither a broker nor the file takes the message, StoreError when the disk refuses."""
        deadline = asyncio.get_running_loop().time() + timeout
        if not self._holds_messages:
            try:
                return await self._delivery.deliver(outgoing, timeout, queue)
            except (ConnectionFailed, RequestTimeout, NoBroker) as error:
                if not self._holds_messages:
                    log.warning("messages go to the spool %s: %s", self._spool.path, error.message)
        await self._keep(Entry(outgoing, queue))
        await self._pace.wait(max(0.0, deadline - asyncio.get_running_loop().time()))
        place = MessageQueue(outgoing.topic, "", -1)
        return SendResult(outgoing.msg_id, "", place, -1, SendStatus.SPOOLED)

    async def _keep(self, entry: Entry) -> None:
        packed = entry.pack()
        if self._spool.waiting_bytes + self._reserved_bytes + len(packed) > self._spool.max_bytes:
            raise SpoolFull(
                f"the spool {self._spool.path} is full ({self._spool.max_bytes} bytes)",
                hint="bring the cluster back, or allow more with max_spool_bytes",
            )
        self._begin_replay()
        batch = self._batch
        batch.packed.append(packed)
        self._reserved_bytes += len(packed)
        if batch.written is None:
            # A task of its own: a sender that is cancelled must not leave the others' messages half way.
            batch.written = asyncio.create_task(self._write(batch))
        try:
            await asyncio.shield(batch.written)
        finally:
            self._reserved_bytes -= len(packed)

    async def _write(self, batch: _Batch) -> None:
        async with self._writing:
            self._batch = _Batch()  # who comes from now on is too late for this one
            await asyncio.to_thread(self._spool.append, batch.packed)

    # -- replay -----------------------------------------------------------------------------------------

    def _begin_replay(self) -> None:
        if not self._holds_messages:
            self._holds_messages = True
            self._engine.spawn(self._replay())

    async def _replay(self) -> None:
        replay = Replay(self._spool, self._delivery, self._pace)
        try:
            await self._replay_all(replay)
        finally:
            self._pace.stop()

    async def _replay_all(self, replay: Replay) -> None:
        while True:
            entries = await asyncio.to_thread(self._spool.peek, REPLAY_STEP)
            for entry in entries:
                await replay.one(entry)
            async with self._writing:
                if entries:
                    await self._mark_sent(len(entries))
                if not self._spool.pending and not self._batch.packed:
                    self._holds_messages = False
                    log.warning("spool %s: all messages are with the brokers", self._spool.path)
                    return
            if not entries:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _mark_sent(self, count: int) -> None:
        try:
            await asyncio.to_thread(self._spool.mark_sent, count)
        except StoreError as error:
            log.warning("spool: messages may come twice after a restart: %s", error.message)
