"""Points in time as people type them, and as they read them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGO: Final = re.compile(r"-?(\d+)([smhd])")
_JAVA: Final = "%Y-%m-%d#%H:%M:%S:%f"

# Milliseconds of today have 13 digits. Fewer than 11 are far more likely to be seconds, or a time ago without its unit,
# which would quietly mean January 1970; those are refused.
_MIN_MS_DIGITS: Final = 11
# The way to say "from the beginning" in scripts for RocketMQ's tools.
_BEGINNING: Final = "0"


def parse_time(text: str, now: float) -> int:
    """Milliseconds since 1970 from: milliseconds, 0, `10m` or `-10m` ago (s, m, h, d), ISO 8601 (local time if it names
    no zone), or RocketMQ's `yyyy-MM-dd#HH:mm:ss:SSS`. `now` in seconds. Raises ValueError that says so."""
    if text == _BEGINNING or (text.isdecimal() and len(text) >= _MIN_MS_DIGITS):
        return int(text)
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return int((now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}).total_seconds()) * 1000)
        moment = datetime.strptime(text, _JAVA) if "#" in text else datetime.fromisoformat(text)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time: write -10m, 2024-05-31T12:00:00, 2024-05-31#12:00:00:000 or milliseconds"
        ) from None


def time_text(timestamp_ms: int) -> str:
    """Local time, to the millisecond; a dash for RocketMQ's ways to say that there is none."""
    if timestamp_ms <= 0:
        return "-"
    return datetime.fromtimestamp(timestamp_ms / 1000).isoformat(" ", "milliseconds")


def duration_text(duration_ms: int) -> str:
    """Two units at most: `850 ms`, `12 s`, `3 m 20 s`, `2 d 4 h`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)
