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

from . import phases, usage
from .driver import Driver, PhaseFailed
from .sides import Broker, Side

# The kernel's own work for a broker (network, write-back) is a few percent; more than this is somebody else.
FOREIGN_SHARE: Final = 0.10

T = TypeVar("T")


@dataclass(slots=True)
class Round:
    """What to run and where; ``notes`` holds what a reader of the figures has to know."""

    side: Side
    driver: Driver
    workdir: Path
    sizes: phases.Sizes
    only: Sequence[str]
    notes: list[str] = field(default_factory=list)

    def measure(self) -> phases.Samples:
        """Run the phases and return their samples."""
        # What the broker before left unwritten should not be written during the measurement of this one.
        os.sync()
        clock = usage.ForeignClock()
        try:
            samples = self._start_time() | self._under_load()
        finally:
            shutil.rmtree(self.workdir, ignore_errors=True)
        if (share := clock.share()) > FOREIGN_SHARE:
            self.notes.append(f"other processes used {share:.0%} of the machine; measure again when it is idle")
        return samples

    def _start_time(self) -> phases.Samples:
        if phases.START not in self.only or not self.sizes.starts:
            return {}
        return _timed(phases.START, lambda: phases.start(self.side, self.workdir, self.sizes))

    def _under_load(self) -> phases.Samples:
        chosen = {name: phase for name, phase in phases.PHASES.items() if name in self.only}
        samples: phases.Samples = {}
        if not chosen:
            return samples
        with (
            self.side.namesrv(self.workdir / "namesrv") as namesrv,
            self.side.broker(self.workdir / "broker", namesrv.address) as broker,
        ):
            self.driver.ask("open", namesrv=namesrv.address, broker=broker.address)
            run = phases.Run(self.driver, broker, self.sizes, notes=self.notes)
            samples |= _timed("warm-up", run.warm_up)
            for name, phase in chosen.items():
                samples |= self._attempt(name, partial(phase, run), broker)
            self.driver.ask("close")
        return samples

    def _attempt(self, name: str, phase: Callable[[], phases.Samples], broker: Broker) -> phases.Samples:
        """Run a phase; one that fails leaves a note and no samples, unless the broker is gone."""
        try:
            return _timed(name, phase)
        except PhaseFailed as exc:
            if not broker.running:
                raise ServerFailed(f"{broker} died in {name}\n{broker.log_text()}") from exc
            self.notes.append(f"{name} failed: {exc}")
            return {}


def say(text: str) -> None:
    """Progress, for the human who waits; stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def _timed(name: str, action: Callable[[], T]) -> T:
    begin = time.monotonic()
    try:
        return action()
    finally:
        say(f"  {name:<8}{time.monotonic() - begin:6.1f} s")
