"""The journal of changes: what is written, numbered, bounded, and told when it cannot be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mqctl import journal
from mqctl.env import Environment
from mqctl.errors import ConfigError


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment(stderr=io.StringIO(), variables={"HOME": str(tmp_path)}, clock=lambda: 1.5)


def record(env: Environment, before: object, after: object) -> int | None:
    return journal.record(env, "n:1", "kv", "a test", [journal.change(before, after, namespace="a", key="b")])


def test_what_was_recorded_is_read_back(env: Environment) -> None:
    assert record(env, None, {"x": [1]}) == 1
    [entry] = journal.entries(env)
    assert (entry.id, entry.timestamp, entry.name_servers, entry.kind) == (1, 1500, "n:1", "kv")
    assert entry.changes == [{"namespace": "a", "key": "b", "before": None, "after": {"x": [1]}}]
    assert not entry.undone
    journal.mark_undone(env, 1)
    assert journal.entries(env)[0].undone


def test_what_changed_nothing_is_not_recorded(env: Environment) -> None:
    assert record(env, 1, 1) is None
    assert journal.entries(env) == []


def test_numbers_go_on_when_the_oldest_are_forgotten(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_ENTRIES", 3)
    for number in range(5):
        record(env, number, number + 1)
    assert [entry.id for entry in journal.entries(env)] == [3, 4, 5]


def test_a_damaged_journal_is_left_alone_and_told(env: Environment, tmp_path: Path) -> None:
    path = tmp_path / ".local/state/mqctl/journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    assert record(env, 1, 2) is None
    assert isinstance(env.stderr, io.StringIO)
    assert "cannot be undone" in env.stderr.getvalue()
    assert path.read_text() == "{}\n"
    with pytest.raises(ConfigError, match="damaged"):
        journal.entries(env)


def test_without_a_home_nothing_is_kept() -> None:
    env = Environment(stderr=io.StringIO(), variables={})
    assert record(env, 1, 2) is None
    assert journal.entries(env) == []
