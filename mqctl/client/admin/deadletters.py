"""Dead letters: messages that a consumer group failed on too often, and sending them to where they came from again.

Nothing can be taken out of a dead letter topic, so that a letter was sent again has to be known otherwise. A copy's id
is made from the place of its letter: whoever wants to send one looks first whether the target topic has a message with
that id. This holds over interruptions, machines and people, and needs no file of its own; it needs the brokers' index.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.copying import Copier, check_index, copy_of, derived_id, is_stored
from mqctl.client.admin.everywhere import ask_all, ask_each, guess
from mqctl.client.admin.messages import brokers_of_topic
from mqctl.client.admin.selecting import origin_topic
from mqctl.errors import MqError, NotFound, ResponseError
from mqctl.names import DLQ_PREFIX
from mqctl.remoting.bodies import TopicStatsTable
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import ORIGIN_MESSAGE_ID

# One failure may be the message's own; so many in a row are the cluster's, and the rest would fare no better.
MAX_FAILURES: Final = 5


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    group: str
    messages: int
    last_timestamp: int  # when the last one came, 0 if there is none
    failed: dict[str, MqError]


async def dead_letter_topics(admin: Admin) -> list[DeadLetterTopic]:
    """Of all groups that ever had one."""
    topics = [topic for topic in await admin.topic_list() if topic.startswith(DLQ_PREFIX)]
    return await ask_each(topics, lambda topic: _describe(admin, topic))


async def _describe(admin: Admin, topic: str) -> DeadLetterTopic:
    async def ask(address: str) -> TopicStatsTable:
        return await admin.topic_stats(address, topic)

    answers = await ask_all(await brokers_of_topic(admin, topic), ask)
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


async def send_again(
    admin: Admin,
    copier: Copier,
    letters: AsyncIterator[ReceivedMessage],
    *,
    topic: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
) -> AsyncIterator[Sent]:
    """Each letter to the topic it was first sent to, or to `topic`, at most `rate` a second; what was sent before is
    passed over. Ends early after MAX_FAILURES in a row."""
    checked: set[str] = set()
    failures = 0
    loop = asyncio.get_running_loop()
    next_time = loop.time()
    async for letter in letters:
        target = topic or origin_topic(letter)
        if target not in checked:
            await check_index(admin, target)
            checked.add(target)
        sent = await _send_once(admin, copier, letter, target, dry_run)
        failures = failures + 1 if sent.outcome in (Outcome.FAILED, Outcome.UNKNOWN) else 0
        yield sent
        if failures == MAX_FAILURES:
            return
        if rate is not None and sent.outcome is not Outcome.ALREADY:
            next_time = max(next_time + 1 / rate, loop.time())
            await asyncio.sleep(next_time - loop.time())


async def _send_once(admin: Admin, copier: Copier, letter: ReceivedMessage, topic: str, dry_run: bool) -> Sent:
    msg_id = copy_id(letter)
    try:
        if await was_sent(admin, letter, topic):
            return Sent(letter, topic, msg_id, Outcome.ALREADY)
    except MqError as error:
        return Sent(letter, topic, msg_id, Outcome.FAILED, f"whether it was sent already is not known: {error.message}")
    if dry_run:
        return Sent(letter, topic, msg_id, Outcome.WOULD)
    origin = letter.properties.get(ORIGIN_MESSAGE_ID)
    copy = copy_of(letter, topic, msg_id, {ORIGIN_MESSAGE_ID: origin} if origin else None)
    try:
        await copier.send(copy)
    except ResponseError as error:
        return Sent(letter, topic, msg_id, Outcome.FAILED, error.message)
    except MqError as error:
        return Sent(letter, topic, msg_id, Outcome.UNKNOWN, error.message)
    return Sent(letter, topic, msg_id, Outcome.SENT)
