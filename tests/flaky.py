"""``python -m tests.flaky --runs 10 [pytest arguments]``: the suite again and again, and what failed in any run.

The options are those of `make test`, without its second chance. The results are kept run by run, so that a series that
was interrupted goes on where it stopped; one run more than there are is one run, not all of them again.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

RUNS: Final = 10
FOLDER: Final = Path("build/flaky")
AS_MAKE_TEST: Final = ("-n", "2", "-m", "not long")
# xunit1 names the file of a test, so that what the table shows can be given to pytest.
JUNIT: Final = ("-o", "junit_family=xunit1", "--junit-xml")
# The suite takes a quarter of an hour. A run that hangs in spite of the limit of each test ends the series.
RUN_LIMIT_S: Final = 3600
GOODBYE_S: Final = 60
# pytest's statuses for a run that came to its end: all passed, some failed.
FINISHED: Final = (0, 1)


class SeriesStopped(Exception):
    """No further run makes sense; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run found: how many tests there were, and of those that failed the first line of the reason."""

    tests: int
    skipped: int
    failed: dict[str, str]


def main(argv: Sequence[str] | None = None) -> int:
    """Complete the series and print its table; 1 when any test failed in any run, 2 when the series is not complete."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.flaky",
        description="Run the suite several times and list the tests that failed in any run.",
        epilog="All other arguments are pytest's: files, -k, -x, ...",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--runs", type=int, default=RUNS, help=f"how many in all, those kept from before included ({RUNS})"
    )
    parser.add_argument("--dir", type=Path, default=FOLDER, help=f"where the results are kept ({FOLDER})")
    options, arguments = parser.parse_known_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        series = complete(options.dir, options.runs, arguments)
    except KeyboardInterrupt:
        print("flaky: interrupted; the same call goes on with this run", file=sys.stderr)
        return 2
    except SeriesStopped as exc:
        print(f"flaky: {exc}", file=sys.stderr)
        return 2
    print("\n".join(table(series)))
    return 1 if any(run.failed for run in series) else 0


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def complete(folder: Path, runs: int, arguments: Sequence[str]) -> list[Run]:
    """All runs of the series: those that the folder holds, and then those that are missing."""
    _claim(folder, arguments)
    series = []
    for number in range(1, runs + 1):
        results = folder / f"run-{number:02}.xml"
        if not results.exists():
            print(f"run {number} of {runs} begins, see {results.with_suffix('.log')}", file=sys.stderr)
            _run(results, arguments)
        series.append(read(results))
        print(f"run {number} of {runs}: {len(series[-1].failed)} failed", file=sys.stderr)
    return series


def _claim(folder: Path, arguments: Sequence[str]) -> None:
    """Refuse to mix runs of different tests: a share of them would mean nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "arguments"
    text = "\n".join(arguments)
    if any(folder.glob("run-*.xml")) and note.read_text() != text:
        raise SeriesStopped(f"{folder} holds a series with other arguments: remove it, or give another --dir")
    note.write_text(text)


def _run(results: Path, arguments: Sequence[str]) -> None:
    """One run; its results appear under their name only when it came to its end."""
    partial = results.with_suffix(".partial")
    command = [sys.executable, "-m", "pytest", *AS_MAKE_TEST, *JUNIT, str(partial), *arguments]
    # In a session of its own it gets one interrupt, ours; the terminal's, a second one, would cut its cleaning short.
    with (
        results.with_suffix(".log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as pytest,
    ):
        try:
            status = pytest.wait(RUN_LIMIT_S)
        except subprocess.TimeoutExpired as exc:
            raise SeriesStopped(f"{results.stem} took more than {RUN_LIMIT_S} s, see {log.name}") from exc
        finally:
            if pytest.poll() is None:
                _end(pytest)
    if status not in FINISHED:
        raise SeriesStopped(f"{results.stem}: pytest ended with status {status}, see {log.name}")
    partial.rename(results)


def _end(pytest: subprocess.Popen[bytes]) -> None:
    """An interrupt lets the fixtures stop their servers; what does not listen is killed."""
    pytest.send_signal(signal.SIGINT)
    try:
        pytest.wait(GOODBYE_S)
    except subprocess.TimeoutExpired:
        pytest.kill()


def read(results: Path) -> Run:
    """A run from its JUnit file. What fails in a fixture, or while it is collected, failed, too."""
    tests: set[str] = set()
    failed: dict[str, str] = {}
    skipped = 0
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('file') or case.get('classname')}::{case.get('name')}"
        tests.add(name)
        skipped += case.find("skipped") is not None
        for outcome in (*case.iter("failure"), *case.iter("error")):
            failed.setdefault(name, (outcome.get("message") or "").partition("\n")[0])
    return Run(len(tests), skipped, failed)


def table(series: Sequence[Run]) -> list[str]:
    """Lines: a test that failed, in how many runs, and why the first time; the most frequent first. Then the sum."""
    counts: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for run in series:
        for name, reason in run.failed.items():
            counts[name] = counts.get(name, 0) + 1
            reasons.setdefault(name, reason)
    lines = [
        f"{counts[name]:>3} of {len(series)}  {name}  {reasons[name]}".rstrip()
        for name in sorted(counts, key=lambda name: (-counts[name], name))
    ]
    good = sum(not run.failed for run in series)
    tests, skipped = min(run.tests for run in series), max(run.skipped for run in series)
    return [*lines, f"{good} of {len(series)} runs without a failure; {tests} tests in each, {skipped} of them skipped"]


if __name__ == "__main__":
    sys.exit(main())
