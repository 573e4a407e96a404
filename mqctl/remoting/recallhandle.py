"""Recall handles: what a producer needs to take a delayed message back.

The broker makes one when it accepts the message; for the client it is a text without meaning. Written as RocketMQ 5
writes it: Base64 of "v1 topic broker time key".
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

VERSION: Final = "v1"


class RecallHandle(NamedTuple):
    """Which message it is."""

    topic: str
    broker_name: str
    due_ms: str
    unique_key: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(" ".join((VERSION, *self)).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Raises ValueError."""
        try:
            decoded = base64.b64decode(text, altchars=b"-_", validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError("the recall handle is not one") from None
        version, *parts = decoded.split(" ", len(cls._fields))
        if version != VERSION or len(parts) != len(cls._fields):
            raise ValueError("the recall handle is not one of this version")
        if not all(part.isprintable() for part in parts):
            raise ValueError("the recall handle holds characters that no name has")
        return cls(*parts)


def recall_key(topic: str, unique_key: str) -> str:
    """How a message is named that shall not be delivered: the value of TIMER_DEL_UNIQKEY."""
    return f"{topic}+{unique_key}"
