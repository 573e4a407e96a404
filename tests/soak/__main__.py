"""``python -m tests.soak``: a bounded run, a report, and exit status 1 when something was lost or grew."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.peers.process import ServerFailed

from .report import data, faults, text
from .run import Plan, run


def main(args: Sequence[str] | None = None) -> int:
    options = _parse(args)
    plan = Plan(
        seconds=options.minutes * 60,
        clients=options.clients,
        workers=options.workers,
        rate=options.rate,
        restarts=tuple(options.restarts.split()),
        java=options.java,
    )
    with tempfile.TemporaryDirectory(prefix="mqctl-soak-") as folder:
        try:
            outcome = run(plan, Path(folder), lambda line: print(line, flush=True))
        except ServerFailed as error:
            print(error, file=sys.stderr)
            return 1
    print(text(outcome))
    if options.json is not None:
        options.json.write_text(json.dumps(data(outcome), indent=2) + "\n")
    return 1 if faults(outcome) else 0


def _parse(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long clients send (20)")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4, help="processes that the clients share (4)")
    parser.add_argument("--rate", type=float, default=300.0, help="sends a second, all clients together (300)")
    parser.add_argument(
        "--restarts",
        default="term",
        metavar="'term kill ...'",
        help="of the broker, by SIGTERM or kill -9, evenly spread over the time ('term'); '' for none",
    )
    parser.add_argument("--java", action="store_true", help="Apache's Java client takes part (needs Java and Maven)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    return parser.parse_args(args)


if __name__ == "__main__":
    sys.exit(main())
