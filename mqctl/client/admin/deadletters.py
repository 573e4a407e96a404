"""Dead letters: messages that a consumer group failed on too often, and sending them to where they came from again.

Nothing can be taken out of a dead letter topic, so that a letter was sent again has to be known otherwise. A copy's id
is made from the place of its letter: whoever wants to send one looks first whether the target topic has a message with
that id. This holds over interruptions, machines and people; it needs the brokers' index, which may be a moment behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.copying import Copier, check_index, copy_of, derived_id, is_stored
from mqctl.client.admin.everywhere import ask_all, ask_each, guess
from mqctl.client.admin.messages import brokers_of_topic
from mqctl.client.admin.replaying import Pace
from mqctl.client.admin.selecting import origin_topic
from mqctl.errors import ConfigError, MqError, NotFound, ResponseError
from mqctl.names import DLQ_PREFIX
from mqctl.remoting.bodies import TopicStatsTable
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import ORIGIN_MESSAGE_ID

# One failure may be the message's own; so many in a row are the cluster's, and the rest would fare no better.
MAX_FAILURES: Final = 5


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    group: str
    messages: int | None  # None if no broker said it
    last_timestamp: int  # when the last one came, 0 if there is none
    failed: dict[str, MqError]


async def dead_letter_topics(admin: Admin) -> list[DeadLetterTopic]:
    """Of all groups that ever had one, also where the brokers do not answer."""
    topics = [topic for topic in await admin.topic_list() if topic.startswith(DLQ_PREFIX)]
    found = await ask_each(topics, lambda topic: _describe(admin, topic))
    return [each for each in found if each is not None]


async def _describe(admin: Admin, topic: str) -> DeadLetterTopic | None:
    """None for a topic that is gone meanwhile."""

    async def ask(address: str) -> TopicStatsTable:
        return await admin.topic_stats(address, topic)

    try:
        brokers = await brokers_of_topic(admin, topic)
    except NotFound:
        return None
    try:
        answers = await ask_all(brokers, ask)
    except MqError as error:
        return DeadLetterTopic(topic.removeprefix(DLQ_PREFIX), None, 0, dict.fromkeys(brokers, error))
    queues = [at for table in answers.given.values() for at in table.offset_table.values()]
    return DeadLetterTopic(
        topic.removeprefix(DLQ_PREFIX),
        sum(at.max_offset - at.min_offset for at in queues),
        max((at.last_update_timestamp for at in queues), default=0),
        answers.failed,
    )


async def find_dead_letter_topic(admin: Admin, group: str) -> str:
    """Raises NotFound for a group without one."""
    topics = await admin.topic_list()
    if DLQ_PREFIX + group not in topics:
        groups = [topic.removeprefix(DLQ_PREFIX) for topic in topics if topic.startswith(DLQ_PREFIX)]
        raise NotFound(f"the group {group} has no dead letters", hint=guess(group, groups))
    return DLQ_PREFIX + group


# -- sending them again ---------------------------------------------------------------------------------


class Outcome(StrEnum):
    SENT = "sent"
    ALREADY = "already sent"
    WOULD = "would be sent"
    FAILED = "failed"
    UNKNOWN = "unknown"  # no answer came: the next run finds out


FAILURES: Final = (Outcome.FAILED, Outcome.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one letter."""

    letter: ReceivedMessage
    topic: str
    msg_id: str
    outcome: Outcome
    why: str | None = None


def copy_id(letter: ReceivedMessage) -> str:
    return derived_id(letter, "again")


async def was_sent(admin: Admin, letter: ReceivedMessage, topic: str) -> bool:
    """Raises MqError when a broker that may have the copy cannot be asked."""
    return await is_stored(admin, topic, copy_id(letter))


@dataclass(slots=True)
class Resender:
    """Each letter to the topic it was first sent to, or to `topic`. `known` has by id the topics of copies that were
    sent before; the brokers are asked for all others. Loop only."""

    admin: Admin
    copier: Copier
    pace: Pace
    topic: str | None = None
    known: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    _checked: set[str] = field(default_factory=set)

    async def send(self, letters: AsyncIterator[ReceivedMessage], max_count: int | None = None) -> AsyncIterator[Sent]:
        """What was sent before is passed over, and does not count for `max_count`. Ends early after MAX_FAILURES in a
        row. Raises ConfigError for a topic without an index."""
        count = failures = 0
        async for letter in letters:
            sent = await self._send(letter)
            failures = failures + 1 if sent.outcome in FAILURES else 0
            count += sent.outcome is not Outcome.ALREADY
            yield sent
            if failures == MAX_FAILURES or count == max_count:
                return

    async def _send(self, letter: ReceivedMessage) -> Sent:
        topic = self.topic or origin_topic(letter)
        msg_id = copy_id(letter)
        try:
            if self.known.get(msg_id) == topic or await self._is_there(letter, topic):
                return Sent(letter, topic, msg_id, Outcome.ALREADY)
        except ConfigError:
            raise
        except MqError as error:
            why = f"whether it was sent already is not known: {error.message}"
            return Sent(letter, topic, msg_id, Outcome.FAILED, why)
        if self.dry_run:
            return Sent(letter, topic, msg_id, Outcome.WOULD)
        await self.pace.wait(letter.store_timestamp)
        return await self._send_copy(letter, topic, msg_id)

    async def _is_there(self, letter: ReceivedMessage, topic: str) -> bool:
        if topic not in self._checked:
            await check_index(self.admin, topic)
            self._checked.add(topic)
        return await was_sent(self.admin, letter, topic)

    async def _send_copy(self, letter: ReceivedMessage, topic: str, msg_id: str) -> Sent:
        origin = letter.properties.get(ORIGIN_MESSAGE_ID)
        copy = copy_of(letter, topic, msg_id, {ORIGIN_MESSAGE_ID: origin} if origin else None)
        try:
            await self.copier.send(copy)
        except ResponseError as error:
            return Sent(letter, topic, msg_id, Outcome.FAILED, error.message)
        except MqError as error:
            return Sent(letter, topic, msg_id, Outcome.UNKNOWN, error.message)
        return Sent(letter, topic, msg_id, Outcome.SENT)
