"""Where a group's positions are kept: at the brokers, or in a file of one consumer that gets everything.

Which position a queue without one begins at is decided here as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Protocol

from mqctl.client.reading import Reader
from mqctl.errors import MqError, RequestFailed
from mqctl.names import RETRY_PREFIX
from mqctl.remoting import bodies, fastjson
from mqctl.remoting.bodies import MessageQueue, ResetOffsetBody
from mqctl.store.smallfiles import load_file_or_backup, replace_file

log = logging.getLogger(__name__)


class ConsumeFrom(Enum):
    """Where a group begins in a queue that it never consumed from."""

    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    LAST = "CONSUME_FROM_LAST_OFFSET"


Start = ConsumeFrom | datetime


class Offsets(Protocol):
    """Loop only."""

    async def load(self, queue: MessageQueue) -> int | None:
        """None when there is none. Raises MqError when that cannot be known now."""

    async def save(self, positions: Mapping[MessageQueue, int]) -> None:
        """Never raises MqError: what is not saved now is saved with the next round."""


class BrokerOffsets:
    """For clustering: each queue's position lies at its broker."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._saved: dict[MessageQueue, int] = {}

    async def load(self, queue: MessageQueue) -> int | None:
        self._saved.pop(queue, None)
        return await self._reader.committed(queue)

    async def save(self, positions: Mapping[MessageQueue, int]) -> None:
        by_topic: dict[tuple[str, str], dict[MessageQueue, int]] = {}
        for queue, offset in positions.items():
            if self._saved.get(queue) != offset:
                by_topic.setdefault((queue.broker_name, queue.topic), {})[queue] = offset
        await asyncio.gather(*map(self._save_topic, by_topic.values()))

    async def _save_topic(self, news: Mapping[MessageQueue, int]) -> None:
        """One after the other: of two first positions of a topic that come at once, Apache's broker keeps one
        (ConsumerOffsetManager.commitOffset). A broker that does not answer is not asked about the rest."""
        for queue, offset in news.items():
            try:
                await self._reader.commit(queue, offset)
            except MqError as error:
                log.warning("position %d of %s is not saved: %s", offset, queue, error.message)
                if not isinstance(error, RequestFailed):
                    return
            else:
                self._saved[queue] = offset


class FileOffsets:
    """For broadcasting: a file as Java's LocalFileOffsetStore has it, so that either finds the other's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: dict[MessageQueue, int] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def load(self, queue: MessageQueue) -> int | None:
        async with self._one_at_a_time:
            return (await self._loaded()).get(queue)

    async def save(self, positions: Mapping[MessageQueue, int]) -> None:
        async with self._one_at_a_time:
            try:
                await self._save(positions)
            except MqError as error:
                log.warning("positions are not saved: %s", error.message)

    async def _save(self, positions: Mapping[MessageQueue, int]) -> None:
        table = await self._loaded()
        if not positions.items() <= table.items():
            table.update(positions)
            await asyncio.to_thread(
                replace_file, self._path, fastjson.dumps_pretty(ResetOffsetBody(offset_table=table))
            )

    async def _loaded(self) -> dict[MessageQueue, int]:
        if self._table is None:
            stored = await asyncio.to_thread(load_file_or_backup, self._path, _parse)
            self._table = {} if stored is None else dict(stored.offset_table)
        return self._table


def _parse(data: bytes) -> ResetOffsetBody:
    # The member and its keys are those of Java's OffsetSerializeWrapper.
    return bodies.decode(ResetOffsetBody, data)


def local_offsets_path(folder: Path | None, client_id: str, group: str) -> Path:
    root = Path.home() / ".rocketmq_offsets" if folder is None else folder
    return root / client_id / group / "offsets.json"


async def first_offset(reader: Reader, offsets: Offsets, queue: MessageQueue, start: Start) -> int:
    """Where to begin in a queue: at the group's position, else where `start` says. Raises MqError."""
    stored = await offsets.load(queue)
    if stored is not None:
        return stored
    if start is ConsumeFrom.FIRST:
        return 0  # a broker that has deleted the first messages answers with its first
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if start is ConsumeFrom.LAST:
        # Messages to retry were already this group's, all of them.
        return 0 if is_retry else await reader.max_offset(queue)
    assert isinstance(start, datetime)
    if is_retry:
        return await reader.max_offset(queue)
    return max(0, await reader.search_offset(queue, int(start.timestamp() * 1000)))
