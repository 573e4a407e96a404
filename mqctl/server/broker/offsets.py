"""How far each consumer group has read each queue, kept in config/consumerOffset.json."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec

from mqctl.errors import StoreError
from mqctl.remoting import bodies
from mqctl.remoting.bodies import ConsumerOffsetTable
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.configfile import ConfigFile

log = logging.getLogger(__name__)

# Neither a topic nor a group name may contain it, so it separates them in the file's keys.
KEY_SEPARATOR = "@"


class ConsumerOffsets:
    """Loop only. Offsets are taken as given, backwards too: a reset is a commit of a smaller number."""

    def __init__(self, config: BrokerConfig) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self._file = ConfigFile(config.root / "config" / "consumerOffset.json", self._encode)
        self._changed = False
        self._pulled: dict[tuple[str, str, int], int] = {}

    def load(self) -> None:
        stored = self._file.load(lambda data: bodies.decode(ConsumerOffsetTable, data))
        if stored is not None:
            self._table = stored.offset_table

    def correct(self, max_offset: Callable[[str, int], int]) -> None:
        """For a start after an unclean stop: messages may be lost that were consumed before. A group that stayed
        behind the end of its queue would miss what takes their places. That must be on disk before anything does:
        the next kill may be near."""
        for key, offsets in self._table.items():
            topic, _, group = key.partition(KEY_SEPARATOR)
            for queue_id, queue_offset in offsets.items():
                end = max_offset(topic, queue_id)
                if queue_offset > end:
                    log.warning("group %s: offset %d of %s-%d is past the queue's end, corrected to %d", group,
                                queue_offset, topic, queue_id, end)  # fmt: skip
                    offsets[queue_id] = end
                    self._changed = True
        if self._changed:
            try:
                self._file.save_now()
            except StoreError as error:
                log.error("%s", error)  # on a full disk nothing takes those places either

    async def save_last(self) -> None:
        await self._file.save_last()

    def save_soon(self) -> asyncio.Future[None] | None:
        """Starts a write if anything changed since the last one."""
        if not self._changed:
            return None
        self._changed = False
        saved = self._file.save_soon()
        saved.add_done_callback(self._saved)
        return saved

    def _saved(self, saved: asyncio.Future[None]) -> None:
        if saved.cancelled() or saved.exception() is not None:
            self._changed = True

    def _encode(self) -> bytes:
        return msgspec.json.format(self.encode_table(), indent=2)

    def encode_table(self) -> bytes:
        return msgspec.json.encode({"offsetTable": self._table})

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        self._table.setdefault(f"{topic}{KEY_SEPARATOR}{group}", {})[queue_id] = queue_offset
        self._changed = True

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        queues = self._table.get(f"{topic}{KEY_SEPARATOR}{group}")
        return None if queues is None else queues.get(queue_id)

    def note_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """What was handed out up to here may not be consumed yet. Kept in memory only."""
        self._pulled[group, topic, queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """The offset up to which the group has got messages, as far as is known."""
        return self._pulled.get((group, topic, queue_id), 0)

    # -- what operators ask -------------------------------------------------------------------------

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """By queue id; empty for a group that never committed one."""
        return self._table.get(f"{topic}{KEY_SEPARATOR}{group}", {})

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Topic and group, wherever one has committed for the other."""
        for key in self._table:
            topic, _, group = key.partition(KEY_SEPARATOR)
            yield topic, group

    def topics_of(self, group: str) -> list[str]:
        # Tools ask this for every group, so the keys are not taken apart first.
        end = f"{KEY_SEPARATOR}{group}"
        return [key.removesuffix(end) for key in self._table if key.endswith(end)]

    def groups_of(self, topic: str) -> list[str]:
        begin = f"{topic}{KEY_SEPARATOR}"
        return [key.removeprefix(begin) for key in self._table if key.startswith(begin)]

    def forget(self, group: str) -> None:
        for topic in self.topics_of(group):
            del self._table[f"{topic}{KEY_SEPARATOR}{group}"]
            self._changed = True

    def clone(self, source: str, target: str, topic: str) -> None:
        """The target stands where the source does; where the source never was, it stays."""
        for queue_id, queue_offset in dict(self.of(source, topic)).items():
            self.commit(target, topic, queue_id, queue_offset)
