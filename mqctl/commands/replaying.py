"""A replay under way: which messages, where they go, what has been done so far."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqctl.commands.common import Session
from mqctl.commands.msg.shared import selection_of
from mqctl.commands.telling import Counting
from mqctl.replays import Replay
from mqctl.unfinished import Record

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.replaying import Aim
    from mqctl.client.results import SendResult
    from mqctl.remoting.message import ReceivedMessage


async def _source(session: Session, admin: Admin, wanted: Replay) -> AsyncIterator[ReceivedMessage]:
    from mqctl.commands.msg.reading import selected

    selection = replace(
        selection_of(session, sql=wanted.sql, match=wanted.match, key=wanted.key),
        since=wanted.since,
        until=wanted.until,
    )
    from mqctl.client.admin.replaying import from_records, queue_name

    if wanted.store is None:
        async for message in selected(admin, wanted.topic, wanted.tag, selection):
            if not wanted.ends or message.queue_offset < wanted.ends.get(queue_name(message), 0):
                yield message
        return
    from mqctl.store.offline.folder import StoreFolder
    from mqctl.store.offline.search import Query, search

    def damaged(start: int, end: int, what: str) -> None:
        session.env.say(f"warning: log offset {start}: {what}")

    tags = frozenset(each.strip() for each in wanted.tag.split("||"))
    query = Query(topic=wanted.topic, key=selection.key, since=selection.since, until=selection.until)
    folder = StoreFolder(Path(wanted.store), None)
    folder.queues_of(wanted.topic)
    async for message in from_records(search(folder, query, lambda found: found.body, damaged)):
        if selection.fits(message) and ("*" in tags or message.tags in tags):
            yield message


class Run:
    """What has been done so far."""

    def __init__(self, session: Session, wanted: Replay, resumed: bool) -> None:
        self.wanted = wanted
        self.resumed = resumed
        self._session = session
        self._count = 0
        self._first: int | None = None
        self._last: int | None = None
        # What is wrong with the options is told before anything is asked.
        selection_of(session, sql=wanted.sql, match=wanted.match)

    async def _limited(self, admin: Admin) -> AsyncIterator[ReceivedMessage]:
        taken = 0
        async for message in _source(self._session, admin, self.wanted):
            yield message
            taken += 1
            if taken == self.wanted.max_count:
                return

    async def _messages(self, admin: Admin, aim: Aim) -> AsyncIterator[ReceivedMessage]:
        """All that are wanted, or what is left of them."""
        if not self.resumed:
            async for message in self._limited(admin):
                yield message
            return
        from mqctl.client.admin import Admin
        from mqctl.client.admin.copying import check_index, is_stored
        from mqctl.client.admin.replaying import unsent

        async with Admin(
            self.wanted.target, timeout=self._session.timeout, credentials=self._session.credentials
        ) as target:
            await check_index(target, aim.topic)

            async def was_sent(message: ReceivedMessage) -> bool:
                return await is_stored(target, aim.topic, aim.id_of(message))

            async for message in unsent(self._limited(admin), self.wanted.positions, was_sent):
                yield message

    async def _settle_ends(self, admin: Admin) -> None:
        """What arrives from now on is not for this replay: it may be its own copies."""
        from mqctl.client.admin.scanning import find_spans

        if self.wanted.store is None and not self.wanted.ends:
            spans = await find_spans(admin, self.wanted.topic)
            self.wanted.ends = {f"{span.queue.broker_name}:{span.queue.queue_id}": span.end for span in spans}

    def _aim(self, on_lane: Callable[[], None]) -> Aim:
        from mqctl.client.admin.replaying import Aim, check_target

        check_target(self.wanted.into)
        return Aim(self.wanted.into, f"replay {self.wanted.id}", self.wanted.lanes, on_lane)

    async def count_all(self, admin: Admin) -> None:
        async for message in self._messages(admin, self._aim(lambda: None)):
            self._add(message)

    async def send(self, admin: Admin, record: Record) -> None:
        from mqctl.client.admin.copying import Copier
        from mqctl.client.admin.replaying import Pace, queue_name, replay

        aim = self._aim(record.save)
        await self._settle_ends(admin)
        pace = Pace(self.wanted.speed, self.wanted.rate)
        with Counting(self._session, "sent", None) as told:

            def sent(message: ReceivedMessage, result: SendResult) -> None:
                self._add(message)
                self.wanted.positions[queue_name(message)] = message.phys_offset
                record.save_sometimes()
                told(self._count)

            async with Copier(
                self.wanted.target, timeout=self._session.timeout, credentials=self._session.credentials
            ) as copier:
                await replay(self._messages(admin, aim), copier, aim, pace, sent)

    def _add(self, message: ReceivedMessage) -> None:
        self._count += 1
        stored = message.store_timestamp
        self._first = stored if self._first is None else min(self._first, stored)
        self._last = stored if self._last is None else max(self._last, stored)

    def tell_where(self, what: str) -> None:
        # What has a queue to go to may have been sent, though no answer came.
        if self.wanted.lanes:
            self._session.env.say(f"{what} after {self._count} messages; go on with `mqctl replay --resume`")

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.wanted.topic,
            "into": self.wanted.into,
            "messages": self._count,
            "firstTimestamp": self._first,
            "lastTimestamp": self._last,
        }
