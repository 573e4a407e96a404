"""Keeping producers away from a broker until nothing arrives there any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.brokers import broker_consume_stats, find_instances, set_writable
from mqctl.client.admin.everywhere import ask_all, ask_each
from mqctl.client.admin.load import Load
from mqctl.errors import MqError, NotFound
from mqctl.remoting.bodies import ClusterInfo

INTERVAL_S: Final = 1.0
# Which topics grow a broker tells of one topic at a time, and it may have thousands.
GROWTH_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Drained:
    """How far it is. `per_second` is what the broker says of the last 10 s; `behind` counts what groups have not
    consumed yet, each group for itself; `growing` are messages a second by topic, the most first; `untold` are the name
    servers that could not be told, by address."""

    done: bool
    put_total: int
    per_second: float
    quiet_seconds: float
    behind: int
    growing: dict[str, float]
    untold: dict[str, MqError]


async def drain(
    admin: Admin,
    name: str,
    *,
    quiet_seconds: float,
    until_consumed: bool,
    wait_seconds: float | None,
    tell: Callable[[Drained], None],
    dry_run: bool,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Drained:
    """Returns when nothing was put for so long, or when `wait_seconds` are over. What the broker itself puts counts as
    well: retries, and messages whose delay is over. `tell` hears of every change, and of the end; a dry run looks once
    and changes nothing. Raises NotFound for a broker without a master, and MqError when no name server can be told."""
    address = _master(await admin.cluster_info(), name)
    untold = {} if dry_run else await _wipe(admin, name)
    began, told = clock(), None
    puts, growth = _Puts(admin, address, clock), _Growth(admin, address, clock)
    while True:
        await puts.look()
        behind = sum(max(0, queue.behind) for queue in await broker_consume_stats(admin, address))
        done = dry_run or (puts.quiet_seconds >= quiet_seconds and not (until_consumed and behind))
        late = wait_seconds is not None and clock() - began >= wait_seconds
        if not done:
            await growth.look(puts.quiet_seconds, at_once=late)
        news = (puts.total, behind, growth.growing)
        state = Drained(done, puts.total, puts.per_second, puts.quiet_seconds, behind, growth.growing, untold)
        if done or late or news != told:
            tell(state)
            told = news
        if done or late:
            return state
        await sleep(min(INTERVAL_S, max(0.05, quiet_seconds - puts.quiet_seconds)))
        # A broker that registers a changed topic is writable again: name servers know nothing of a wish to drain it.
        untold = await _wipe(admin, name)


@dataclass(slots=True)
class _Puts:
    """How much a broker has stored, and since when no more."""

    admin: Admin
    address: str
    clock: Callable[[], float]
    total: int = -1
    per_second: float = 0.0
    quiet_seconds: float = 0.0
    _changed: float = 0.0

    async def look(self) -> None:
        runtime = await self.admin.runtime_info(self.address)
        total, now = int(runtime.get("putMessageTimesTotal", "0")), self.clock()
        if total != self.total:
            self._changed = now
        self.total, self.per_second, self.quiet_seconds = total, Load.read(runtime, 0).in_tps, now - self._changed


@dataclass(slots=True)
class _Growth:
    """Which topics get longer, and by how many messages a second."""

    admin: Admin
    address: str
    clock: Callable[[], float]
    growing: dict[str, float] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _looked: float | None = None

    async def look(self, quiet_seconds: float, *, at_once: bool) -> None:
        now = self.clock()
        if self._looked is None:
            self._ends, self._looked = await self._find_ends(), now
        elif quiet_seconds > GROWTH_INTERVAL_S:
            self.growing = {}
        elif now - self._looked >= GROWTH_INTERVAL_S or (at_once and now > self._looked):
            ends = await self._find_ends()
            rates = {topic: (end - self._ends.get(topic, end)) / (now - self._looked) for topic, end in ends.items()}
            rising = [topic for topic in rates if rates[topic] > 0]
            self.growing = {topic: rates[topic] for topic in sorted(rising, key=rates.__getitem__, reverse=True)}
            self._ends, self._looked = ends, now

    async def _find_ends(self) -> dict[str, int]:
        """Without the topics that are gone meanwhile."""

        async def end(topic: str) -> int | None:
            try:
                table = await self.admin.topic_stats(self.address, topic)
            except MqError:
                return None
            return sum(at.max_offset for at in table.offset_table.values())

        topics = list(await self.admin.topic_configs(self.address))
        ends = zip(topics, await ask_each(topics, end), strict=True)
        return {topic: at for topic, at in ends if at is not None}


async def _wipe(admin: Admin, name: str) -> dict[str, MqError]:
    """By address why some name servers could not be told. Raises the first failure when none could."""
    servers = {address: address for address in admin.name_server_addresses}
    return (await ask_all(servers, lambda address: set_writable(admin, address, name, writable=False))).failed


def _master(info: ClusterInfo, name: str) -> str:
    for instance in find_instances(info, None, name):
        if instance.is_master:
            return instance.address
    raise NotFound(f"no master of {name} is running")
