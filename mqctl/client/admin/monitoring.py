"""Looking after a cluster: what is wrong with it now, and what began and ended since the last look.

A trouble is known by its kind and subject, such as ("lag", "order-service orders"). The detail may change from round
to round without being news.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import KnownGroups, known_groups, running_infos
from mqctl.client.admin.deadletters import dead_letter_topics
from mqctl.client.admin.diagnosis import verdicts
from mqctl.client.admin.everywhere import ask_each, brokers_of
from mqctl.client.admin.movedoffsets import MovedOffsets, text_of
from mqctl.client.admin.progress import GroupProgress, QueueProgress, add_delays, progress_of
from mqctl.client.clusters import MASTER_ID
from mqctl.errors import ConnectionFailed, MqError, RequestTimeout
from mqctl.names import is_system_group
from mqctl.remoting.bodies import OffsetMovedEvent
from mqctl.times import duration_text

BEGINS: Final = "begins"
ENDS: Final = "ends"
ONCE: Final = "once"

Troubles = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on being behind is a trouble."""

    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Event:
    """`what` is BEGINS, ENDS, or ONCE for what has no length."""

    what: str
    kind: str
    subject: str
    detail: str


@dataclass(slots=True)
class Monitor:
    """Remembers the last round."""

    limits: Limits
    cluster: str | None = None
    groups: Sequence[str] = ()
    troubles: Troubles = field(default_factory=dict)
    # Dead letters by group, None where a broker that has some never answered.
    _dead: dict[str, int | None] | None = None
    _moved: MovedOffsets = field(default_factory=MovedOffsets)

    async def round(self, admin: Admin, now_ms: int) -> list[Event]:
        """What is new. A cluster that does not answer is news as well."""
        try:
            found = await self._look(admin, now_ms)
            dead = {one.group: None if one.failed else one.messages for one in await dead_letter_topics(admin)}
            moved = await self._news_of_moved(admin)
        except MqError as error:
            # Whether what was wrong is still wrong nobody knows.
            found, dead, moved = {**self.troubles, ("cluster", self.cluster or "all"): error.message}, None, []
        news = [*self._differences(found), *self._died(dead), *self._moves(moved)]
        self.troubles = found
        if dead is not None:
            before = self._dead or {}
            self._dead = before | {group: before.get(group) if now is None else now for group, now in dead.items()}
        return news

    async def _news_of_moved(self, admin: Admin) -> list[OffsetMovedEvent]:
        """While a broker is silent there are none: they come when it is back, or is not expected any more."""
        try:
            return [event async for event in self._moved.news(admin)]
        except (ConnectionFailed, RequestTimeout):
            return []

    def _differences(self, found: Troubles) -> Iterator[Event]:
        for (kind, subject), detail in found.items():
            if (kind, subject) not in self.troubles:
                yield Event(BEGINS, kind, subject, detail)
        for (kind, subject), detail in self.troubles.items():
            if (kind, subject) not in found:
                yield Event(ENDS, kind, subject, detail)

    def _died(self, dead: dict[str, int | None] | None) -> Iterator[Event]:
        """Dead letters that came since the last round; what lay there before is no news."""
        if dead is None or self._dead is None:
            return
        for group, messages in dead.items():
            before = self._dead.get(group, 0)
            if messages is None or before is None:
                continue
            more = messages - before
            if more > 0 and self._concerns(group):
                yield Event(ONCE, "dead", group, f"{more} more dead letters, {messages} in all")

    def _moves(self, moved: Sequence[OffsetMovedEvent]) -> Iterator[Event]:
        for event in moved:
            if self._concerns(event.consumer_group):
                yield Event(ONCE, "moved", f"{event.consumer_group} {event.message_queue.topic}", text_of(event))

    def _concerns(self, group: str) -> bool:
        return group in self.groups if self.groups else not is_system_group(group)

    async def _look(self, admin: Admin, now_ms: int) -> Troubles:
        info = await admin.cluster_info()
        brokers = brokers_of(info, self.cluster)
        known = await known_groups(admin, brokers)
        wanted = self.groups or [group for group in known.brokers if self._concerns(group)]
        progresses = await progress_of(admin, known, [group for group in wanted if group in known.brokers])
        await add_delays(admin, brokers, progresses, now_ms)
        found = {("group", group): "no broker has it" for group in wanted if group not in known.brokers}
        found |= {("broker", name): error.message for name, error in known.failed.items()}
        for name in brokers:
            if MASTER_ID not in info.broker_addr_table[name].broker_addrs:
                found["broker", name] = "it has no master: nobody can send to it"
        found |= {key: detail for progress in progresses for key, detail in self._behind(progress)}
        found |= await _clients(admin, known, progresses, now_ms)
        if known.failed:
            # What a broker that is silent would say of its groups is not known.
            found = {key: detail for key, detail in self.troubles.items() if key[0] in ("lag", "client")} | found
        return found

    def _behind(self, progress: GroupProgress) -> Iterator[tuple[tuple[str, str], str]]:
        by_topic: dict[str, list[QueueProgress]] = {}
        for queue in progress.queues:
            by_topic.setdefault(queue.queue.topic, []).append(queue)
        for topic, queues in by_topic.items():
            messages = sum(queue.behind for queue in queues)
            delay_ms = max(queue.delay_ms or 0 for queue in queues)
            if messages > self.limits.messages or delay_ms > self.limits.seconds * 1000:
                yield ("lag", f"{progress.group} {topic}"), f"{messages} messages, {duration_text(delay_ms)} behind"


async def _clients(admin: Admin, known: KnownGroups, progresses: Sequence[GroupProgress], now_ms: int) -> Troubles:
    """Clients that do not answer for themselves are passed over: 4.x clients in other languages cannot."""
    online = [progress for progress in progresses if progress.connection is not None]

    async def ask(progress: GroupProgress) -> Troubles:
        assert progress.connection is not None
        names = [client.client_id for client in progress.connection.connection_set]
        said = await running_infos(admin, known.brokers[progress.group], progress.group, names)
        infos = {name: info for name, info in said.items() if not isinstance(info, MqError)}
        return {
            ("client", f"{progress.group} {client_id}"): "; ".join(wrong)
            for client_id, wrong in verdicts(infos, now_ms).items()
            if wrong
        }

    found: Troubles = {}
    for troubles in await ask_each(online, ask):
        found |= troubles
    return found
