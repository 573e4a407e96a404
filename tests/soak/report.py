"""What came out of a run: for people, for programs, and whether it is good enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import java
from .cast import Kind
from .growth import MIB, Life, Trend, judge
from .run import CONNECTIONS_LEFT, Outcome


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def faults(outcome: Outcome) -> list[str]:
    """Nothing when the run was good."""
    return list(_faults(outcome))


def _faults(outcome: Outcome) -> Iterator[str]:
    books = outcome.books
    if outcome.failed_workers:
        yield f"workers {outcome.failed_workers} did not end well"
    wanted = {*Kind, *([java.KIND] if outcome.plan.java else [])}
    if absent := sorted(wanted - books.acknowledged.keys()):
        yield f"no {', '.join(absent)} message was ever acknowledged"
    for kind, names in books.missing().items():
        yield f"{len(names)} {kind} messages were acknowledged and never came: {', '.join(sorted(names)[:5])}"
    if wrong := books.wrongly_consumed():
        yield f"{len(wrong)} messages were rolled back and came: {', '.join(sorted(wrong)[:5])}"
    for name, life in lives(outcome):
        if life.grows:
            yield f"{name} grows: {_memory(life.memory)}; files {_files(life.files)}"
    if outcome.connections_left > CONNECTIONS_LEFT:
        yield f"the broker holds {outcome.connections_left} connections after all clients left"


def lives(outcome: Outcome) -> Iterator[tuple[str, Life]]:
    for number, samples in enumerate(outcome.lives, 1):
        if (life := judge(samples)) is not None:
            yield f"broker, start {number}", life
    if (life := judge(outcome.name_server)) is not None:
        yield "name server", life


def text(outcome: Outcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    books = outcome.books
    yield f"{'messages':24}{'acknowledged':>14}{'missing':>10}"
    missing = books.missing()
    for kind, names in sorted(books.acknowledged.items()):
        yield f"  {kind:22}{len(names):>14,}{len(missing.get(kind, ())):>10,}"
    yield f"  delivered {books.deliveries:,} times, {len(books.consumed):,} different ones"
    yield f"  rolled back {len(books.rolled_back):,}, of them delivered {len(books.wrongly_consumed()):,}"
    yield f"{'ms':24}{'count':>14}{'p50':>10}{'p99':>10}{'max':>10}"
    for what, values in sorted(books.latencies_ms.items()):
        ordered = sorted(values)
        figures = "".join(f"{percentile(ordered, share):>10,.1f}" for share in (0.5, 0.99, 1.0))
        yield f"  {what:22}{len(ordered):>14,}{figures}"
    yield "growth, first to last quarter behind the warm-up"
    for name, life in lives(outcome):
        verdict = ("GROWS" if life.grows else "flat") if life.judged else "too short to tell"
        yield f"  {name:22}{life.seconds:>6.0f} s  {_memory(life.memory)}; files {_files(life.files)}: {verdict}"
    if books.errors:
        told = ", ".join(f"{what} {name} {number:,}" for (what, name), number in sorted(books.errors.items()))
        yield f"calls that failed and were told so: {told}"
    restarts = ", ".join(f"{seconds:.1f} s" for seconds in outcome.restart_seconds) or "none"
    yield f"restarts took {restarts}; the last message came {outcome.drain_seconds:.0f} s after the last send"
    for fault in faults(outcome):
        yield f"FAULT: {fault}"


def _memory(trend: Trend) -> str:
    return f"{trend.first / MIB:.1f} to {trend.last / MIB:.1f} MiB ({trend.per_minute / MIB:+.2f}/min)"


def _files(trend: Trend) -> str:
    return f"{trend.first:.0f} to {trend.last:.0f} ({trend.per_minute:+.1f}/min)"


def data(outcome: Outcome) -> dict[str, Any]:
    books = outcome.books
    return {
        "seconds": outcome.plan.seconds,
        "clients": outcome.plan.clients,
        "acknowledged": {kind: len(names) for kind, names in books.acknowledged.items()},
        "missing": {kind: sorted(names) for kind, names in books.missing().items()},
        "deliveries": books.deliveries,
        "rolledBackAndDelivered": sorted(books.wrongly_consumed()),
        "latencyMs": {what: _figures(sorted(values)) for what, values in sorted(books.latencies_ms.items())},
        "errors": {f"{what} {name}": number for (what, name), number in sorted(books.errors.items())},
        "growth": {name: _growth(life) for name, life in lives(outcome)},
        "samples": [[list(sample) for sample in samples] for samples in outcome.lives],
        "connectionsLeft": outcome.connections_left,
        "restartSeconds": outcome.restart_seconds,
        "drainSeconds": outcome.drain_seconds,
        "faults": faults(outcome),
    }


def _figures(ordered: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(ordered),
        "p50": percentile(ordered, 0.5),
        "p99": percentile(ordered, 0.99),
        "max": ordered[-1],
    }


def _growth(life: Life) -> dict[str, Any]:
    return {
        "seconds": life.seconds,
        "judged": life.judged,
        "grows": life.grows,
        "rss": {"first": life.memory.first, "last": life.memory.last, "perMinute": life.memory.per_minute},
        "files": {"first": life.files.first, "last": life.files.last, "perMinute": life.files.per_minute},
    }
