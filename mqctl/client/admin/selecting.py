"""Which messages of many: by what they say of themselves, by a filter, by their bodies."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqctl.remoting.compression import CompressionError
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import RETRY_TOPIC, join_properties

if TYPE_CHECKING:
    from mqctl.filter.sql import Filter


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything that is given must fit. Times are store times in ms, `until` not included."""

    topic: str | None = None  # of a dead letter the one it was sent to first
    tags: Collection[str] = ()
    key: str | None = None
    ids: Collection[str] = ()
    min_tries: int = 0
    max_tries: int | None = None
    sql: Filter | None = None
    body: re.Pattern[bytes] | None = None
    since: int | None = None
    until: int | None = None

    def fits(self, message: ReceivedMessage) -> bool:
        return (
            (self.topic is None or origin_topic(message) == self.topic)
            and (not self.tags or message.tags in self.tags)
            and (self.key is None or self.key in message.keys)
            and (not self.ids or message.msg_id in self.ids or message.offset_msg_id in self.ids)
            and message.reconsume_times >= self.min_tries
            and (self.max_tries is None or message.reconsume_times <= self.max_tries)
            and (self.since is None or message.store_timestamp >= self.since)
            and (self.until is None or message.store_timestamp < self.until)
            and (self.sql is None or self.sql.matches(join_properties(message.properties)))
            and (self.body is None or self.body.search(body_of(message)) is not None)
        )


def origin_topic(message: ReceivedMessage) -> str:
    """Where a message that was retried or given up was sent to in the first place."""
    return message.properties.get(RETRY_TOPIC) or message.topic


def body_of(message: ReceivedMessage) -> bytes:
    """As its producer had it; where it does not expand, better the compressed bytes than nothing."""
    try:
        return message.body
    except CompressionError:
        return message.stored_body
