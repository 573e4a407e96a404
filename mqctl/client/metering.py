"""How a consumer has fared over the last minute, by topic: what operators see in its running info."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from mqctl.client.held import HeldQueue
from mqctl.remoting.bodies_consumer import ConsumeStatus

SAMPLE_SECONDS: Final = 10.0
SAMPLES_PER_MINUTE: Final = 6


@dataclass(slots=True)
class Totals:
    """Since the start; times in ms."""

    pulls: int = 0
    pull_ms: int = 0
    pulled: int = 0
    consumed: int = 0
    failed: int = 0
    consume_ms: int = 0


class Meter:
    """Loop only. Counting is cheap; `sample` every 10 s, and a look back makes rates of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._totals: defaultdict[str, Totals] = defaultdict(Totals)
        self._samples: deque[tuple[float, dict[str, Totals]]] = deque([(clock(), {})], SAMPLES_PER_MINUTE)

    def pulled(self, topic: str, messages: int, ms: int) -> None:
        totals = self._totals[topic]
        totals.pulls += 1
        totals.pulled += messages
        totals.pull_ms += ms

    def consumed(self, held: HeldQueue, messages: int, started_ms: int, *, failed: bool) -> None:
        """A listener is done with so many, just now."""
        held.last_consume_ms = now_ms = time.time_ns() // 1_000_000
        totals = self._totals[held.queue.topic]
        totals.consume_ms += (now_ms - started_ms) * messages
        if failed:
            totals.failed += messages
        else:
            totals.consumed += messages

    async def sample(self) -> None:
        self._samples.append((self._clock(), {topic: replace(totals) for topic, totals in self._totals.items()}))

    def status(self, topic: str) -> ConsumeStatus:
        """Over the last minute, or since the start."""
        begin, samples = self._samples[0]
        seconds = max(self._clock() - begin, 1.0)
        then, now = samples.get(topic, Totals()), self._totals[topic]
        handled = now.consumed + now.failed - then.consumed - then.failed
        return ConsumeStatus(
            pull_rt=(now.pull_ms - then.pull_ms) / max(now.pulls - then.pulls, 1),
            pull_tps=(now.pulled - then.pulled) / seconds,
            consume_rt=(now.consume_ms - then.consume_ms) / max(handled, 1),
            consume_ok_tps=(now.consumed - then.consumed) / seconds,
            consume_failed_tps=(now.failed - then.failed) / seconds,
            consume_failed_msgs=now.failed,  # Java's client says how many of the last hour; these are all
        )
