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
from pathlib import Path
from typing import Final

from tests.peers.cache import PeerUnavailable
from tests.peers.process import ServerFailed

from . import phases, report, sides
from .driver import Driver, DriverFailed, PhaseFailed
from .rounds import Round, say

ROUNDS: Final = 3
QUICK_ROUNDS: Final = 1
EXIT_FAILED: Final = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when it ran to its end, whatever it found."""
    options = _parser().parse_args(argv)
    # The default action would leave brokers and the load generator running behind a benchmark that was ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(EXIT_FAILED))
    try:
        _bench(options)
    except (DriverFailed, PhaseFailed, PeerUnavailable, ServerFailed) as exc:
        say(f"bench: {exc}")
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="mqctl's broker and Apache RocketMQ 4.9.7 under the same load, one after the other.",
    )
    add = parser.add_argument
    add("--rounds", type=int, help=f"rounds of java, mqctl ({ROUNDS}; {QUICK_ROUNDS} with --quick)")
    add("--quick", action="store_true", help="small counts, for a look rather than a verdict")
    add("--only", type=_names, default=phases.NAMES, metavar="A,B", help=", ".join(phases.NAMES))
    add("--json", type=Path, metavar="FILE", help="write every round and the table there as well")
    add("--dir", type=Path, help="folder for the stores of both (the temporary folder)")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--ours-only", action="store_true", help="mqctl alone, for tuning")
    alone.add_argument("--java-only", action="store_true", help="Apache's broker alone")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    if not names or set(names) - set(phases.NAMES):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(phases.NAMES)}")
    return names


def _bench(options: argparse.Namespace) -> None:
    sizes = phases.QUICK if options.quick else phases.FULL
    count = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    chosen = _sides(options)
    samples: dict[str, list[phases.Samples]] = {side.name: [] for side in chosen}
    notes: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="mqctl-bench-", dir=options.dir) as folder,
        Driver(Path(folder) / "driver") as driver,
    ):
        say(f"rehearsal, not measured: {chosen[0].name}")
        Round(chosen[0], driver, Path(folder) / "rehearsal", phases.REHEARSAL, options.only).measure()
        for number in range(1, count + 1):
            for side in chosen:
                say(f"round {number} of {count}: {side.name}")
                one = Round(side, driver, Path(folder) / f"{side.name}-{number}", sizes, options.only)
                samples[side.name].append(one.measure())
                notes += [f"{side.name}, round {number}: {note}" for note in one.notes]
    _publish(options.json, chosen, samples, report.rows(samples, sizes), notes)


def _sides(options: argparse.Namespace) -> list[sides.Side]:
    if options.ours_only:
        return [sides.ours()]
    if options.java_only:
        return [sides.java()]
    return [sides.java(), sides.ours()]


def _publish(
    file: Path | None,
    chosen: Sequence[sides.Side],
    samples: dict[str, list[phases.Samples]],
    rows: list[report.Row],
    notes: list[str],
) -> None:
    setting = {
        "machine": f"{os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        **{side.name: side.describe for side in chosen},
    }
    for name, text in setting.items():
        print(f"{name}: {text}")
    report.show(rows)
    for note in notes:
        print(f"note: {note}")
    if file:
        document = {"setting": setting, "rounds": samples, "rows": report.as_json(rows), "notes": notes}
        file.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
