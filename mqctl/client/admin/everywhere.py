"""Asking many brokers at once, or one broker many things, when some of them may be away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mqctl.client.clusters import readable_address
from mqctl.errors import MqError, NotFound
from mqctl.remoting.bodies import ClusterInfo

T = TypeVar("T")
K = TypeVar("K")

# How many questions are under way at a time: enough to keep a broker busy over a long line, few enough that none of
# them waits for its turn until it times out.
WINDOW: Final = 128


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """By broker name: what those who answered said, and why the others did not."""

    given: dict[str, T]
    failed: dict[str, MqError]


async def ask_all(brokers: Mapping[str, str], question: Callable[[str], Awaitable[T]]) -> Answers[T]:
    """`question` gets each broker's address. Raises the first failure when nobody answers."""

    results = await asyncio.gather(*(_attempt(question, address) for address in brokers.values()))
    given: dict[str, T] = {}
    failed: dict[str, MqError] = {}
    for name, result in zip(brokers, results, strict=True):
        if isinstance(result, MqError):
            failed[name] = result
        else:
            given[name] = result
    if failed and not given:
        raise next(iter(failed.values()))
    return Answers(given, failed)


async def failures(addresses: Iterable[str], order: Callable[[str], Awaitable[object]]) -> dict[str, MqError]:
    """By address why some did not do what all are told to."""

    told = list(addresses)
    results = await asyncio.gather(*(_attempt(order, address) for address in told))
    return {address: result for address, result in zip(told, results, strict=True) if isinstance(result, MqError)}


async def _attempt(question: Callable[[str], Awaitable[T]], address: str) -> T | MqError:
    try:
        return await question(address)
    except MqError as error:
        return error


async def ask_each(
    things: Iterable[K], question: Callable[[K], Awaitable[T]], progress: Callable[[int], None] | None = None
) -> list[T]:
    """The answers in the order of the things, at most WINDOW of them asked at a time. `progress` is told after each how
    many there are."""
    free = asyncio.Semaphore(WINDOW)
    done = 0

    async def ask(thing: K) -> T:
        nonlocal done
        async with free:
            answer = await question(thing)
        done += 1
        if progress is not None:
            progress(done)
        return answer

    return await asyncio.gather(*(ask(thing) for thing in things))


def brokers_of(info: ClusterInfo, cluster: str | None) -> dict[str, str]:
    """Broker name to the address to read from, of one cluster or of all. Raises NotFound."""
    if cluster is not None and cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise NotFound(f"there is no cluster {cluster}", hint=f"known: {known}")
    names = info.broker_addr_table if cluster is None else info.cluster_addr_table[cluster]
    found = {
        name: address
        for name in sorted(names)
        if (broker := info.broker_addr_table.get(name)) is not None
        and (address := readable_address(broker.broker_addrs)) is not None
    }
    if not found:
        raise NotFound(
            "no broker has registered with the name server", hint="start one with `mqctl broker -n host:port`"
        )
    return found


def guess(name: str, known: Iterable[str]) -> str | None:
    """A hint with the names most like one that does not exist."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else None
