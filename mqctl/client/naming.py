"""Names that Java's clients and brokers allow, refused here before anybody is asked."""

from __future__ import annotations

import functools
import re
from typing import Final

from mqctl.errors import ConfigError

LEGAL_GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
KNOWN_TOPICS: Final = 1024  # which need no second look; every message comes by here
LEGAL_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")


def check_group(group: str) -> None:
    """Raises ConfigError. The name becomes part of a topic's."""
    if not LEGAL_GROUP.fullmatch(group):
        raise ConfigError(f"{group[:255]!r} is no name of a group", hint="use 1 to 255 letters, digits, _ - % |")


@functools.lru_cache(maxsize=KNOWN_TOPICS)
def check_topic(topic: str) -> None:
    """Raises ConfigError. Brokers answer such a name with SYSTEM_ERROR, which looks worth another attempt."""
    if not LEGAL_TOPIC.fullmatch(topic):
        raise ConfigError(f"{topic[:127]!r} is no name of a topic", hint="use 1 to 127 letters, digits, _ - % |")
