"""Does a broker do all the work it is timed for?

A broker that skips the key index or never flushes is faster for a bad reason, and nothing else in a benchmark
would show it. Both are looked at from outside, after the warm-up, on either broker in the same way.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path
from typing import Final

from .driver import Driver

# Spread over all messages sent; one that is found by luck does not make an index.
KEYS_ASKED: Final = 8
# The client gives each question up to 15 s before it takes silence for "not found".
LOOKUP_S: Final = KEYS_ASKED * 15
# ASYNC_FLUSH syncs every 500 ms (flushIntervalCommitLog); the kernel by itself waits 30 s.
FLUSH_WAIT_S: Final = 3.0
# A flush may leave the last few pages for the next turn (flushCommitLogLeastPages).
UNFLUSHED_SHARE: Final = 0.1

# Linux 6.5 and later, the same number on every architecture; the C library has no name for it yet.
SYS_CACHESTAT: Final = 451


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recent"))


def shortfalls(driver: Driver, topic: dict[str, object], sent: int, body: int, store_dir: Path) -> list[str]:
    """What the broker left undone of the ``sent`` messages just taken; empty when it did everything."""
    time.sleep(FLUSH_WAIT_S)
    problems = []
    found = driver.ask("lookup", seconds=LOOKUP_S, numbers=sent, ask=KEYS_ASKED, **topic)["found"]
    if found < KEYS_ASKED:
        problems.append(f"finds {found} of {KEYS_ASKED} messages by key")
    unwritten_bytes = sum(map(_unwritten_bytes, (store_dir / "commitlog").iterdir()))
    # Against the bodies alone, a safe lower bound: cached pages may be dropped and files pre-allocated.
    if unwritten_bytes > UNFLUSHED_SHARE * sent * body:
        problems.append(f"{unwritten_bytes:,} bytes of the commit log not on disk after {FLUSH_WAIT_S:g} s")
    return problems


def _unwritten_bytes(file: Path) -> int:
    """What of the file is only in memory; 0 where the kernel cannot tell."""
    whole, stat = _Range(0, 0), _CacheStat()
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        arguments = (ctypes.c_long(descriptor), ctypes.byref(whole), ctypes.byref(stat), ctypes.c_long(0))
        failed = libc.syscall(ctypes.c_long(SYS_CACHESTAT), *arguments)
    finally:
        os.close(descriptor)
    return 0 if failed else (stat.dirty + stat.writeback) * mmap.PAGESIZE
