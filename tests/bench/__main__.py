"""``python -m tests.bench``: both brokers, in turn, under the same load."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.peers.cache import PeerUnavailable
from tests.peers.process import ServerFailed

from . import durable, phases, report, sides
from .driver import Driver, DriverFailed, PhaseFailed
from .rounds import Round, say

NAMES: Final = (*phases.NAMES, *durable.NAMES)
ROUNDS: Final = 3
QUICK_ROUNDS: Final = 1
EXIT_FAILED: Final = 1


@dataclass(slots=True)
class Results:
    """What has been measured so far."""

    chosen: list[sides.Side]
    samples: dict[str, list[phases.Samples]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when it ran to its end, whatever it found. What was measured is shown either way."""
    options = _parser().parse_args(argv)
    # The default action would leave brokers and the load generator running behind a benchmark that was ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(EXIT_FAILED))
    sizes = phases.QUICK if options.quick else phases.FULL
    results = Results(_sides(options))
    status = 0
    try:
        _bench(options, sizes, results)
    except (DriverFailed, PhaseFailed, PeerUnavailable, ServerFailed) as exc:
        say(f"bench: {exc}")
        results.notes.append(f"ended early: {str(exc).splitlines()[0]}")
        status = EXIT_FAILED
    _publish(options.json, results, sizes)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="mqctl's broker and Apache RocketMQ 4.9.7 under the same load, one after the other.",
    )
    add = parser.add_argument
    add("--rounds", type=int, help=f"rounds of java, mqctl ({ROUNDS}; {QUICK_ROUNDS} with --quick)")
    add("--quick", action="store_true", help="small counts, for a look rather than a verdict")
    add("--only", type=_names, default=NAMES, metavar="A,B", help=", ".join(NAMES))
    add("--json", type=Path, metavar="FILE", help="write every round and the table there as well")
    add("--dir", type=Path, help="folder for the stores of both (the temporary folder)")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--ours-only", action="store_true", help="mqctl alone, for tuning")
    alone.add_argument("--java-only", action="store_true", help="Apache's broker alone")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    if not names or set(names) - set(NAMES):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(NAMES)}")
    return names


def _sides(options: argparse.Namespace) -> list[sides.Side]:
    if options.ours_only:
        return [sides.ours()]
    if options.java_only:
        return [sides.java()]
    return [sides.java(), sides.ours()]


def _bench(options: argparse.Namespace, sizes: phases.Sizes, results: Results) -> None:
    count = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    first = results.chosen[0]
    with (
        tempfile.TemporaryDirectory(prefix="mqctl-bench-", dir=options.dir) as folder,
        Driver(Path(folder) / "driver") as driver,
    ):
        say(f"rehearsal, not measured: {first.name}")
        Round(first, driver, Path(folder) / "rehearsal", phases.REHEARSAL, options.only).measure()
        for number in range(1, count + 1):
            for side in results.chosen:
                say(f"round {number} of {count}: {side.name}")
                one = Round(side, driver, Path(folder) / f"{side.name}-{number}", sizes, options.only)
                results.samples.setdefault(side.name, []).append(one.samples)
                try:
                    one.measure()
                finally:
                    results.notes += [f"{side.name}, round {number}: {note}" for note in one.notes]


def _publish(file: Path | None, results: Results, sizes: phases.Sizes) -> None:
    rows = report.rows(results.samples, sizes)
    setting = {
        "machine": f"{os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        **{side.name: side.describe for side in results.chosen},
    }
    for name, text in setting.items():
        print(f"{name}: {text}")
    report.show(rows)
    for note in results.notes:
        print(f"note: {note}")
    if file:
        table = report.as_json(rows)
        document = {"setting": setting, "rounds": results.samples, "rows": table, "notes": results.notes}
        file.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
