"""UNIQ_KEY, the message id a producer makes up before it sends.

    client IP            4 or 16 bytes
    process id           2   its low 16 bits
    process token        4   Java: the hash of a class loader
    time                 4   ms since the start of the month, local time
    counter              2

in upper-case hex: 32 or 56 digits, as many as an offset message id has.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import secrets
import socket
import time
from collections.abc import Callable
from struct import Struct
from typing import Final

_MOMENT: Final = Struct(
    ">"
    "I"  # time
    "H"  # counter
)
_PROCESS: Final = Struct(
    ">"
    "H"  # process id
    "I"  # process token
)

# How far the clock may step back over the start of a month and still count as that start, as in Java.
MAX_CLOCK_STEP_MS: Final = 1_000_000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class UniqueIdGenerator:
    """Makes ids that no other process makes. May be called from any thread; needs a new one after a fork.

    The token is drawn at random, as pids alone do not tell containers apart: each has its own process 1.
    """

    def __init__(
        self,
        clock: Callable[[], int] = _now_ms,
        *,
        ip: str | None = None,
        pid: int | None = None,
        token: int | None = None,
    ) -> None:
        address = ipaddress.ip_address(ip if ip is not None else local_ip())
        process = _PROCESS.pack(
            (os.getpid() if pid is None else pid) & 0xFFFF,
            (secrets.randbits(32) if token is None else token) & 0xFFFFFFFF,
        )
        self._clock = clock
        self._prefix = (address.packed + process).hex().upper()
        self._counter = itertools.count()  # next() on it is atomic
        self._month = (0, 0)  # its start and its end; one tuple, so that threads see both change at once

    def __call__(self) -> str:
        now_ms = self._clock()
        start, end = self._month
        if now_ms >= end:
            start, _end = self._month = _month_around(now_ms)
        elapsed = now_ms - start
        if -MAX_CLOCK_STEP_MS < elapsed < 0:
            elapsed = 0
        # A month has more ms than a signed int32; Java's cast wraps and leaves the same 32 bits.
        moment = _MOMENT.pack(elapsed & 0xFFFFFFFF, next(self._counter) & 0xFFFF)
        return self._prefix + moment.hex().upper()


def _month_around(now_ms: int) -> tuple[int, int]:
    """Start of the month that `now_ms` lies in, and of the one after it, in local time as Java has it."""
    local = time.localtime(now_ms / 1000)
    return _month_start(local.tm_year, local.tm_mon), _month_start(local.tm_year, local.tm_mon + 1)


def _month_start(year: int, month: int) -> int:
    # mktime takes a month of 0 or 13 for one of the neighbouring year; -1 lets it find out about summer time.
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000


def born_time_ms(unique_id: str, now_ms: int) -> int:
    """About when an id was made, if that was in the month before `now_ms`. Raises ValueError for other texts.

    An id does not say which month it is from; like Java, this takes the last one that lies before `now_ms`.
    """
    packed = bytes.fromhex(unique_id)
    if len(packed) not in (_PROCESS.size + _MOMENT.size + 4, _PROCESS.size + _MOMENT.size + 16):
        raise ValueError(f"a unique key has 32 or 56 hex digits, not {len(unique_id)}")
    elapsed, _counter = _MOMENT.unpack_from(packed, len(packed) - _MOMENT.size)
    local = time.localtime(now_ms / 1000)
    made = _month_start(local.tm_year, local.tm_mon) + int(elapsed)
    if made < now_ms:
        return made
    return _month_start(local.tm_year, local.tm_mon - 1) + int(elapsed)


def local_ip() -> str:
    """The address this host reaches others from, or the loopback address where it reaches nobody."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; the kernel only picks a route and our address on it.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
