"""When delayed messages are due.

A delayed message waits in a topic of the broker's own: SCHEDULE_TOPIC for those with a delay level, one queue
for each level; TIMER_TOPIC for those with a time of their own, one queue for all. Their consume queue entries
hold the time they are due where others hold the hash of their tag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.store.properties import (
    DELAY,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    get_property,
)

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_INT: Final = re.compile(r"[+-]?\d{1,19}")
_MAX_INT: Final = (1 << 31) - 1
_MAX_LONG: Final = (1 << 63) - 1

# A message that was taken back may still be in its queue some time after it was due, if the disk refuses for a while.
RECALL_GRACE_MS: Final = 3_600_000

# Tag hashes have 32 bits. No time since 1970 fits in there, except for the first 24 days.
_MAX_HASH: Final = (1 << 31) - 1


def parse_levels(text: str) -> tuple[int, ...]:
    """messageDelayLevel as milliseconds, level 1 first. Raises ValueError."""
    levels = tuple(_parse_delay(word) for word in text.split())
    if not levels:
        raise ValueError("there must be at least one delay level")
    return levels


def _parse_delay(word: str) -> int:
    match = _DELAY.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is not a delay: write a number and s, m, h or d")
    return int(match[1]) * _UNIT_MS[match[2]]


DEFAULT_LEVELS_MS: Final = parse_levels(DEFAULT_LEVELS)


def asked_level(properties: str) -> int:
    """The delay level a message asks for, 0 for none, below 0 if its sender wrote so. Raises ValueError for what
    Java does not take for an int."""
    return _number(properties, DELAY, _MAX_INT) or 0


def asked_time(properties: str, now_ms: int) -> int | None:
    """The moment a message wants to be delivered at, None if it names none. Raises ValueError for what Java does
    not take for a long."""
    if (seconds := _number(properties, TIMER_DELAY_SEC, _MAX_LONG)) is not None:
        return now_ms + seconds * 1000
    if (delay_ms := _number(properties, TIMER_DELAY_MS, _MAX_LONG)) is not None:
        return now_ms + delay_ms
    return _number(properties, TIMER_DELIVER_MS, _MAX_LONG)


def _number(properties: str, name: str, largest: int) -> int | None:
    text = get_property(properties, name)
    if text is None:
        return None
    if _INT.fullmatch(text) is None or not -largest - 1 <= int(text) <= largest:
        raise ValueError(f"{name} is {text[:40]!r}, which is not a number in range")
    return int(text)


# -- what the queues of these topics hold -------------------------------------------------------------


def waiting_code(topic: str, properties: str, store_timestamp: int, levels_ms: Sequence[int]) -> int | None:
    """What the queue entry of a message in one of these topics holds; None for other messages, and for those that
    do not say when they are due."""
    try:
        if topic == SCHEDULE_TOPIC:
            level = min(asked_level(properties), len(levels_ms))
            return store_timestamp + levels_ms[level - 1] if level > 0 else None
        if topic == TIMER_TOPIC:
            return timer_code(_timer_due(properties, store_timestamp), properties)
    except ValueError:
        return None
    return None


def timer_code(due_ms: int, properties: str) -> int:
    """The time of a message. For one that takes another message back it is the time until when that is remembered,
    and negative, so that a start finds those without reading all messages."""
    return due_ms if get_property(properties, TIMER_DEL_UNIQKEY) is None else -(due_ms + RECALL_GRACE_MS)


def is_time(code: int) -> bool:
    """False for the hash of a tag, which Apache's broker leaves in a queue of timers that it rebuilds."""
    return abs(code) > _MAX_HASH + 1


def _timer_due(properties: str, store_timestamp: int) -> int:
    """TIMER_OUT_MS says it. Apache's 5.x broker rounds that down, to a second, and so the original wish counts as
    well, unless it was relative and the message has been stored again since."""
    due_ms = _number(properties, TIMER_OUT_MS, _MAX_LONG)
    if due_ms is None:
        raise ValueError("no TIMER_OUT_MS")
    if get_property(properties, TIMER_ROLL_TIMES) is not None:
        return due_ms
    return max(due_ms, asked_time(properties, store_timestamp) or 0)
