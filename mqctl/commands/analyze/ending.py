"""Signals that end a program, as exceptions: what was begun is then cleared up, as after Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it the first such signal raises SystemExit with the status that shells give it, and later ones do not
    disturb the clearing up. One that is ignored, as `nohup` has it, stays so. For the main thread only."""
    before = {number: signal.getsignal(number) for number in ENDING}
    heeded = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in heeded:
        signal.signal(number, end)
    try:
        yield
    finally:
        _set(before)


@contextmanager
def held() -> Iterator[None]:
    """Within it no signal ends the program: the first one is heeded after the block, when those who clear up know what
    was begun in it. For the main thread only."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
    came: list[int] = []
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        _set(before)
        if came:
            signal.raise_signal(came[0])


def _set(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
