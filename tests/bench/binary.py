"""``python -m tests.bench.binary``: the one-file executable against the sources it was built from, and mqadmin.

Everything is measured in one run and in turns, so that a busy machine is busy for all of them; only ratios mean
something.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.binary.executable import build
from tests.peers.apache import mqadmin
from tests.peers.ours import OurBroker, OurNamesrv

from . import usage
from .driver import Driver
from .rounds import FOREIGN_SHARE, say
from .sides import APACHE_VERSION, SETTINGS

ROUNDS: Final = 5
CALLS: Final = 60_000
THREADS: Final = 64
BODY: Final = 128
QUEUES: Final = 4
PHASE_SECONDS: Final = 60

# What is wanted of the executable.
LISTING_SHARE: Final = 1 / 6
SEND_SHARE: Final = 0.95

SOURCE: Final = (sys.executable, "-m", "mqctl")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.binary", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=CALLS, help="messages per round")
    parser.add_argument("--binary", type=Path, help="the executable; built if not given")
    options = parser.parse_args()
    clock = usage.ForeignClock()
    with tempfile.TemporaryDirectory(prefix="mqctl-bench-") as name:
        folder = Path(name)
        if options.binary is None:
            say("building the executable")
        binary = (str((options.binary or build(folder)).resolve()),)
        print(f"{'':<36}{'other':>12}{'executable':>12}{'ratio':>8}  target")
        _listings(folder, binary, options.rounds)
        _sends(folder, binary, options.rounds, options.calls)
    if (share := clock.share()) > FOREIGN_SHARE:
        print(f"note: other processes used {share:.0%} of the machine; measure again when it is idle")
    return 0


def _listings(folder: Path, binary: Sequence[str], rounds: int) -> None:
    """Wall time of `cluster list`, from the start of the process to its end."""
    seconds: dict[str, list[float]] = {"mqadmin": [], "source": [], "binary": []}
    with OurNamesrv(folder / "namesrv") as namesrv, OurBroker(folder / "listed", namesrv.address):
        for _ in range(rounds):
            begin = time.monotonic()
            mqadmin(APACHE_VERSION, namesrv.address, "clusterList")
            seconds["mqadmin"].append(time.monotonic() - begin)
            for side, program in (("source", SOURCE), ("binary", binary)):
                begin = time.monotonic()
                command = [*program, "cluster", "list", "-n", namesrv.address]
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                seconds[side].append(time.monotonic() - begin)
    _print_row("cluster list, against mqadmin: s", seconds["mqadmin"], seconds["binary"], LISTING_SHARE, wanted="<=")
    _print_row("cluster list, against source: s", seconds["source"], seconds["binary"], None)


def _sends(folder: Path, binary: Sequence[str], rounds: int, calls: int) -> None:
    """Synchronous sends from the same JVM to a broker of each kind, both running, one under load at a time."""
    rates: dict[str, list[float]] = {"source": [], "binary": []}
    cpu: dict[str, list[float]] = {"source": [], "binary": []}
    with (
        OurNamesrv(folder / "sends") as namesrv,
        _broker("source", folder, namesrv.address, SOURCE) as source,
        _broker("binary", folder, namesrv.address, binary) as frozen,
        Driver(folder / "driver") as driver,
    ):
        for number in range(-1, rounds):
            for broker in (source, frozen):
                rate, microseconds = _send(driver, broker, calls)
                if number >= 0:  # the first round is a rehearsal
                    rates[broker.name].append(rate)
                    cpu[broker.name].append(microseconds)
    _print_row("sync sends, 64 threads: messages/s", rates["source"], rates["binary"], SEND_SHARE, wanted=">=")
    _print_row("broker CPU per message: us", cpu["source"], cpu["binary"], None)


def _broker(name: str, folder: Path, namesrv: str, program: Sequence[str]) -> OurBroker:
    broker = OurBroker(folder / name, namesrv, name=name, conf=SETTINGS)
    broker.program = program
    return broker


def _send(driver: Driver, broker: OurBroker, calls: int) -> tuple[float, float]:
    """Messages per second, and microseconds of CPU per message. The topic is one that only this broker has."""
    topic = {"prefix": broker.name, "topics": 1}
    driver.ask("open", namesrv=broker.namesrv, broker=broker.address)
    driver.ask("topics", seconds=PHASE_SECONDS, queues=QUEUES, **topic)
    before = usage.cpu_seconds(broker.pid)
    rate = driver.ask("sync", seconds=PHASE_SECONDS, calls=calls, width=THREADS, body=BODY, **topic)["rate"]
    used = usage.cpu_seconds(broker.pid) - before
    driver.ask("close")
    return rate, used / calls * 1e6


def _print_row(label: str, others: list[float], ours: list[float], target: float | None, wanted: str = "") -> None:
    other, our = statistics.median(others), statistics.median(ours)
    ratio = our / other
    good = target is None or (ratio <= target if wanted == "<=" else ratio >= target)
    verdict = "" if target is None else f"{wanted} {target:.2f}x {'ok' if good else 'miss'}"
    print(f"{label:<36}{other:>12,.2f}{our:>12,.2f}{ratio:>7.2f}x  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
