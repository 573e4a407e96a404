"""How many messages a second a topic, or a client, may send: topicSendRateLimit and clientSendRateLimit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn
from weakref import WeakKeyDictionary

from mqctl.errors import RequestFailed
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.connection import Connection


class Bucket:
    """Fills by `rate` tokens a second up to a second's worth. A message takes one."""

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate)
        self._at = now

    def fill(self, now: float) -> bool:
        """Whether there is at least one token now."""
        self._tokens = min(float(self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens >= 1

    def take(self, count: int) -> None:
        """A batch may take more than there is, or one larger than the bucket would never pass: it leaves a debt."""
        self._tokens -= count


class RateLimits:
    """Loop only. A limit of 0 is none. A client is a connection: the broker sees no other name of it in a send."""

    def __init__(self, per_topic: int, per_client: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_topic = per_topic
        self._per_client = per_client
        self._clock = clock
        self._topics: dict[str, Bucket] = {}
        self._clients: WeakKeyDictionary[Connection, Bucket] = WeakKeyDictionary()

    def check(self, connection: Connection, topic: str, count: int) -> None:
        """Takes the tokens for so many messages, of both limits or none. Raises RequestFailed. The topic has to
        exist, so that nobody can fill the memory with names."""
        now = self._clock()
        buckets = []
        if self._per_topic:
            bucket = self._topics.setdefault(topic, Bucket(self._per_topic, now))
            if not bucket.fill(now):
                _refuse(f"topic {topic!r}", self._per_topic, "topicSendRateLimit")
            buckets.append(bucket)
        if self._per_client:
            bucket = self._clients.setdefault(connection, Bucket(self._per_client, now))
            if not bucket.fill(now):
                _refuse("a client", self._per_client, "clientSendRateLimit")
            buckets.append(bucket)
        for bucket in buckets:
            bucket.take(count)


def _refuse(who: str, limit: int, key: str) -> NoReturn:
    raise RequestFailed(
        ResponseCode.SYSTEM_BUSY,
        f"[FLOW_CONTROL]broker busy, {who} may send {limit} messages a second ({key}): try again later",
    )
