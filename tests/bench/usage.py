"""CPU time and memory of a broker, and how much of the machine somebody else is using."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

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
