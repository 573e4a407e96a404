"""CPU time and memory of a broker, and how much of the machine somebody else is using."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import psutil


class Memory(NamedTuple):
    """Resident bytes: all of them, and those that are not pages of mapped files."""

    rss: int
    private: int


def cpu_seconds(pid: int) -> float:
    """User and system time so far, with that of children, alive or already reaped."""
    return sum(sum(process.cpu_times()[:4]) for process in _family(pid))


def memory(pid: int) -> Memory:
    """Resident memory now, children included.

    Both brokers map their store, and the kernel counts the mapped pages it has cached as theirs though it may
    drop them at any time; ``private`` leaves those out.
    """
    infos = [process.memory_info() for process in _family(pid)]
    rss = sum(info.rss for info in infos)
    return Memory(rss, rss - sum(info.shared for info in infos))


NAP_S: Final = 0.001


class Sleeper:
    """How late a thread that only sleeps is woken while the block runs: below that no broker can be on time."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        before = time.perf_counter()
        while not self._over.wait(NAP_S):
            now = time.perf_counter()
            self._late.append(now - before - NAP_S)
            before = now

    def __enter__(self) -> Sleeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def p99_us(self) -> float:
        """Of all moments, not of all naps: a stall of 100 ms counts like the hundred naps it swallowed."""
        total = sum(late + NAP_S for late in self._late)
        passed = 0.0
        for late in sorted(self._late, reverse=True):
            passed += late + NAP_S
            if passed >= total / 100:
                return late * 1e6
        return 0.0


class ForeignClock:
    """Measures, from its creation on, the share of the machine's CPU time that is not this program's."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._foreign = _foreign_seconds()

    def share(self) -> float:
        """0.0 for a machine of our own; time stolen by a hypervisor counts as somebody else's."""
        elapsed = (time.monotonic() - self._begin) * (os.cpu_count() or 1)
        return max(0.0, (_foreign_seconds() - self._foreign) / elapsed)


def _foreign_seconds() -> float:
    times = psutil.cpu_times()
    busy = times.user + times.system + sum(getattr(times, kind, 0.0) for kind in ("nice", "irq", "softirq", "steal"))
    return float(busy) - cpu_seconds(os.getpid())


def _family(pid: int) -> Iterator[psutil.Process]:
    parent = psutil.Process(pid)
    yield parent
    yield from parent.children(recursive=True)
