"""Searching the whole log for messages, by what they hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mqctl.store import record
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.logscan import STEP, OnDamage, OnProgress, no_progress
from mqctl.store.properties import KEY_SEPARATOR, KEYS, UNIQ_KEY, get_property


@dataclass(frozen=True, slots=True)
class Query:
    """What a message must have; everything that is given must fit. Times in ms, `until` not included."""

    topic: str | None = None
    key: str | None = None
    properties: Sequence[tuple[str, str]] = ()
    body: re.Pattern[bytes] | None = None
    since: int | None = None
    until: int | None = None

    def needles(self) -> list[bytes]:
        """Bytes that any match contains: looking for them is far cheaper than taking a record apart."""
        texts = [self.topic, self.key, *(f"{name}\x01{value}" for name, value in self.properties)]
        return [text.encode(errors="surrogateescape") for text in texts if text]

    def fits(self, found: record.Record, body_of: Callable[[record.Record], bytes]) -> bool:
        return (
            (self.topic is None or found.topic == self.topic)
            and (self.key is None or self.key in _keys(found.properties))
            and all(get_property(found.properties, name) == value for name, value in self.properties)
            and (self.since is None or found.store_timestamp >= self.since)
            and (self.until is None or found.store_timestamp < self.until)
            and (self.body is None or self.body.search(body_of(found)) is not None)
        )


def _keys(properties: str) -> list[str]:
    unique = get_property(properties, UNIQ_KEY)
    keys = (get_property(properties, KEYS) or "").split(KEY_SEPARATOR)
    return [*keys, unique] if unique else keys


def search(
    store: StoreFolder,
    query: Query,
    body_of: Callable[[record.Record], bytes],
    on_damage: OnDamage,
    on_progress: OnProgress = no_progress,
) -> Iterator[record.Record]:
    """All records that fit, in the order of the log; also those whose topic was deleted."""
    needles = query.needles()
    scan = store.scan(on_damage, None if query.since is None else store.file_from(query.since))
    begin = next_step = scan.place
    for raw in scan:
        end = raw.position + raw.fields[0]
        if all(raw.buffer.find(needle, raw.position, end) >= 0 for needle in needles):
            found = record.parse(memoryview(raw.buffer)[raw.position : end], 0)
            if query.fits(found, body_of):
                yield found
        if scan.place >= next_step:
            on_progress(scan.place - begin, store.log.end - begin)
            next_step = scan.place + STEP
