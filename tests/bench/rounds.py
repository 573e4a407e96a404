"""One round: the chosen phases on one fresh broker, whose store is removed afterwards."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tests.peers.process import ServerFailed

from . import durable, phases, usage
from .driver import Driver, PhaseFailed
from .sides import Broker, Side

# The kernel's own work for a broker (network, write-back) is a few percent; more than this is somebody else.
FOREIGN_SHARE: Final = 0.10

T = TypeVar("T")


@dataclass(slots=True)
class Round:
    """What to run and where.

    ``samples`` grows phase by phase, so what was measured before a failure is kept; ``notes`` holds what a
    reader of the figures has to know.
    """

    side: Side
    driver: Driver
    workdir: Path
    sizes: phases.Sizes
    only: Sequence[str]
    samples: phases.Samples = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def measure(self) -> None:
        """Run the phases. Raises ServerFailed when a server dies, DriverFailed when the load generator does."""
        # What the broker before left unwritten should not be written during the measurement of this one.
        os.sync()
        clock = usage.ForeignClock()
        try:
            self._start_time()
            self._flushed()
            self._under_load()
        finally:
            shutil.rmtree(self.workdir, ignore_errors=True)
            self._note_company(clock.share())

    def _start_time(self) -> None:
        if phases.START in self.only and self.sizes.starts:
            self.samples |= _timed(phases.START, partial(phases.start, self.side, self.workdir, self.sizes))

    def _flushed(self) -> None:
        if durable.FLUSHED in self.only and self.sizes.flushed_sends:
            action = partial(durable.flushed, self.side, self.driver, self.workdir / "flushed", self.sizes)
            samples, notes = _timed(durable.FLUSHED, action)
            self.samples |= samples
            self.notes += notes

    def _under_load(self) -> None:
        every = {**phases.PHASES, **durable.PHASES}
        chosen = {name: phase for name, phase in every.items() if name in self.only}
        if not chosen:
            return
        with (
            self.side.namesrv(self.workdir / "namesrv") as namesrv,
            self.side.broker(self.workdir / "broker", namesrv.address) as broker,
        ):
            self.driver.ask("open", namesrv=namesrv.address, broker=broker.address)
            run = phases.Run(self.driver, broker, self.sizes, notes=self.notes)
            for name, phase in {"warm-up": phases.warm_up, **chosen}.items():
                self.samples |= self._attempt(name, partial(phase, run), broker)
            self.driver.ask("close")

    def _attempt(self, name: str, phase: Callable[[], phases.Samples], broker: Broker) -> phases.Samples:
        """Run a phase; one that fails leaves a note and no samples, unless the broker is gone."""
        try:
            return _timed(name, phase)
        except PhaseFailed as exc:
            if not broker.running:
                # The status tells a crash from a signal that somebody sent (-15 or a tidy 0).
                status = broker.stop()
                raise ServerFailed(f"{broker} ended during {name}, exit status {status}\n{broker.log_text()}") from exc
            self.notes.append(f"{name} failed: {exc}")
            return {}

    def _note_company(self, share: float) -> None:
        if share > FOREIGN_SHARE:
            self.notes.append(f"other processes used {share:.0%} of the machine; measure again when it is idle")


def say(text: str) -> None:
    """Progress, for the human who waits; stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def _timed(name: str, action: Callable[[], T]) -> T:
    begin = time.monotonic()
    try:
        return action()
    finally:
        say(f"  {name:<8}{time.monotonic() - begin:6.1f} s")
