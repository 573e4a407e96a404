"""That the soak run would notice: books that do not balance, memory that grows. And one short run of all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.client import RequestTimeout

from .cast import CAST, FULL, Kind, Task, parts, share, topics
from .growth import MIB, Sample, judge
from .ledger import Books, Ledger
from .report import data, faults, percentile, text
from .run import Outcome, Plan, run


def samples(seconds: int, rss_mib: float, per_minute_mib: float, files: int = 300) -> list[Sample]:
    """With a start that is steeper than the rest, and a saw on top."""
    return [
        Sample(
            second,
            int((rss_mib - max(0, 10 - second) + per_minute_mib * second / 60 + second % 7 / 10) * MIB),
            files + second % 5,
        )
        for second in range(seconds)
    ]


def test_memory_that_is_flat_and_memory_that_is_not() -> None:
    flat, growing = judge(samples(600, 60, 0)), judge(samples(600, 60, 1))
    assert flat is not None
    assert growing is not None
    assert (flat.grows, growing.grows) == (False, True)
    assert growing.memory.per_minute / MIB == pytest.approx(1, abs=0.05)
    leaking = judge([Sample(second, 60 * MIB, 300 + second // 10) for second in range(600)])
    assert leaking is not None
    assert leaking.files.grows
    short = judge(samples(30, 60, 60))
    assert short is not None
    assert (short.judged, short.grows) == (False, False)
    assert judge(samples(3, 60, 0)) is None


def test_books(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path / "1.ledger"), Ledger(tmp_path / "2.ledger")
    for name in ("1-1", "1-2", "1-3"):
        first.acknowledged("plain", name)
    first.rolled_back("transaction", "1-4")
    first.failed("plain-send", RequestTimeout("x"))
    first.flush()
    books = Books(tmp_path)
    books.read()
    assert books.missing() == {"plain": {"1-1", "1-2", "1-3"}}
    for name in ("1-1", "1-2", "1-2", "1-4"):
        second.consumed(name)
    second.took("plain-arrival", 0.5)
    second.close()
    first.close()
    books.read()
    books.read()
    assert books.missing() == {"plain": {"1-3"}}
    assert books.wrongly_consumed() == {"1-4"}
    assert (books.deliveries, dict(books.latencies_ms)) == (4, {"plain-arrival": [500.0]})
    for kind in set(Kind) - {Kind.PLAIN, Kind.DELAYED}:
        books.acknowledged[kind].add("1-2")
    outcome = Outcome(Plan(60), books, [samples(600, 60, 0)], samples(600, 30, 1), connections_left=50)
    told = faults(outcome)
    assert [fault.partition(":")[0] for fault in told] == [
        "no delayed message was ever acknowledged",
        "1 plain messages were acknowledged and never came",
        "1 messages were rolled back and came",
        "name server grows",
        "the broker holds 50 connections after all clients left",
    ]
    assert text(outcome).endswith("\n".join(f"FAULT: {fault}" for fault in told))
    assert data(outcome)["missing"] == {"plain": ["1-3"]}


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    (tmp_path / "1.ledger").write_text("a plain 1-1\na plain 1-")
    books = Books(tmp_path)
    books.read()
    assert books.acknowledged == {"plain": {"1-1"}}
    with (tmp_path / "1.ledger").open("a") as file:
        file.write("25\n")
    books.read()
    assert books.acknowledged == {"plain": {"1-1", "1-25"}}


def test_the_cast() -> None:
    assert len(parts(FULL)) == FULL == 200
    assert sorted(part for worker in range(3) for part in share(50, worker, 3)) == sorted(parts(50))
    for clients in (1, 20, FULL):
        assert {part.role for part in parts(clients)} == set(CAST)
        for kind in Kind:
            consumers = sum(part.role == (Task.CONSUME, kind) for part in parts(clients))
            assert 1 <= len(topics(kind, clients)) <= consumers


def test_percentiles() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.5, 0.99, 1.0)] == [3.0, 4.0, 4.0]


def test_a_short_run(tmp_path: Path) -> None:
    """With a broker that is killed in the middle."""
    outcome = run(Plan(seconds=4, clients=16, workers=1, rate=60, restarts=("kill",)), tmp_path / "run", print)
    assert faults(outcome) == []
    assert len(outcome.restart_seconds) == 1
