"""Delay levels: when a message in the schedule topic is due.

Such a message's consume queue entry holds the delivery time where others hold the hash of their tag.
"""

from __future__ import annotations

from typing import Final

from mqctl.store.properties import DELAY, get_property

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_levels(text: str) -> list[int]:
    """messageDelayLevel as milliseconds, level 1 first. Raises ValueError."""
    return [int(word[:-1]) * _UNIT_MS[word[-1]] if word[-1] in _UNIT_MS else _bad(word) for word in text.split()]


def _bad(word: str) -> int:
    raise ValueError(f"{word!r} is not a delay: write a number and s, m, h or d")


_DEFAULT_MS: Final = parse_levels(DEFAULT_LEVELS)


def delivery_time(properties: str, store_timestamp: int) -> int | None:
    """When a message stored in the schedule topic is due, None if it names no level."""
    level = get_property(properties, DELAY) or ""
    if not level.isdecimal() or int(level) == 0:
        return None
    return store_timestamp + _DEFAULT_MS[min(int(level), len(_DEFAULT_MS)) - 1]
