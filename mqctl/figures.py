"""Figures as people read them, in tables and beside them. Programs get them as they are.

Only what counts or measures has such a form. Numbers that name something (queues, offsets, ids) stay as they are:
people copy them into the next command.
"""

from __future__ import annotations

from typing import Final

from mqctl.times import duration_text

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def count_text(number: float) -> str:
    return f"{number:,}"


def rate_text(per_second: float) -> str:
    """As many digits as one can tell apart at a glance; a slow trickle is not nothing."""
    digits = 0 if per_second >= 1000 or not per_second else 1 if per_second >= 10 else 2
    return f"{per_second:,.{digits}f}"


def share_text(ratio: float) -> str:
    return f"{ratio:.0%}"


def size_text(size_bytes: float) -> str:
    size, unit = float(size_bytes), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{size_bytes:.0f} B"


def seconds_text(seconds: float) -> str:
    return duration_text(int(seconds * 1000)) if seconds else "-"


# In a column of them digits stand under digits.
FORMS: Final = frozenset({count_text, rate_text, share_text, size_text, seconds_text})
