"""Keeping producers away from a broker until nothing arrives there any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.brokers import broker_consume_stats, find_instances, set_writable
from mqctl.errors import NotFound
from mqctl.remoting.bodies import ClusterInfo

INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Drained:
    """How far it is. `behind` counts what groups have not consumed yet, each group for itself."""

    put_total: int
    quiet_seconds: float
    behind: int


async def drain(
    admin: Admin,
    name: str,
    *,
    quiet_seconds: float,
    until_consumed: bool,
    tell: Callable[[Drained], None],
    dry_run: bool,
) -> None:
    """Returns when nothing was put for so long. `tell` hears of every change, and of the end; a dry run looks once and
    changes nothing. Raises NotFound for a broker without a master."""
    address = _master(await admin.cluster_info(), name)
    if not dry_run:
        await _wipe(admin, name)
    began, total, told = time.monotonic(), -1, None
    while True:
        puts = int((await admin.runtime_info(address)).get("putMessageTimesTotal", "0"))
        if puts != total:
            began, total = time.monotonic(), puts
        behind = sum(max(0, queue.behind) for queue in await broker_consume_stats(admin, address))
        state = Drained(total, time.monotonic() - began, behind)
        done = dry_run or (state.quiet_seconds >= quiet_seconds and not (until_consumed and behind))
        if done or (total, behind) != told:
            tell(state)
            told = (total, behind)
        if done:
            return
        await asyncio.sleep(min(INTERVAL_S, max(0.05, quiet_seconds - state.quiet_seconds)))
        # A broker that registers a changed topic is writable again: name servers know nothing of a wish to drain it.
        await _wipe(admin, name)


async def _wipe(admin: Admin, name: str) -> None:
    await asyncio.gather(*(set_writable(admin, server, name, writable=False) for server in admin.name_server_addresses))


def _master(info: ClusterInfo, name: str) -> str:
    for instance in find_instances(info, None, name):
        if instance.is_master:
            return instance.address
    raise NotFound(f"no master of {name} is running")
