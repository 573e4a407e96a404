"""What work leaves behind that sends and is interrupted, and who may take it up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqctl.env import Environment
from mqctl.errors import ConfigError
from mqctl.resends import MAX_SENT, Resend
from mqctl.resends import record_of as record_of_resend
from mqctl.unfinished import SAVE_SECONDS, Record, read


class Surroundings:
    def __init__(self, home: Path) -> None:
        self.now = 100.0
        self.folder = home / ".local/state/mqctl/works"
        self.file = self.folder / "one.json"
        self.env = Environment(variables={"HOME": str(home)}, clock=lambda: self.now)

    def record(self, content: dict[str, Any]) -> Record:
        return Record(self.env, "works", "one", lambda: content, "somebody else is at it")


@pytest.fixture
def at(tmp_path: Path) -> Surroundings:
    return Surroundings(tmp_path)


def test_what_is_interrupted_is_there_for_the_next(at: Surroundings) -> None:
    content = {"sent": 1}
    record = at.record(content)
    assert record.earlier() == {}
    record.save_sometimes()
    content["sent"] = 2
    record.save_sometimes()
    assert read(at.file) == {"sent": 1}, "not every time"
    at.now += SAVE_SECONDS
    record.save_sometimes()
    assert read(at.file) == {"sent": 2}
    content["sent"] = 3
    record.close(done=False)
    again = at.record({})
    assert again.earlier() == {"sent": 3}
    again.close(done=True)
    assert list(at.folder.iterdir()) == []


def test_only_one_at_a_time(at: Surroundings) -> None:
    first = at.record({})
    with pytest.raises(ConfigError, match="somebody else is at it"):
        at.record({})
    first.close(done=True)
    at.record({}).close(done=True)


def test_what_was_never_saved_leaves_nothing(at: Surroundings) -> None:
    at.record({}).close(done=False)
    assert list(at.folder.iterdir()) == []


def test_who_only_looks_changes_nothing(at: Surroundings) -> None:
    """A file that cannot be read is not written over either."""
    at.folder.mkdir(parents=True)
    at.file.write_text("{")
    record = at.record({})
    with pytest.raises(ConfigError, match="cannot be read"):
        record.earlier()
    record.close(done=False)
    assert at.file.read_text() == "{"


def test_without_a_home_nothing_is_kept() -> None:
    record = Record(Environment(variables={}), "works", "one", dict, "busy")
    record.save()
    assert record.earlier() == {}
    record.close(done=False)


def test_a_cluster_has_one_name(at: Surroundings) -> None:
    """However its name servers are written."""
    first = record_of_resend(at.env, Resend("g", "a:1;b:2"))
    with pytest.raises(ConfigError, match="dead letters of g are being sent elsewhere"):
        record_of_resend(at.env, Resend("g", "b:2,a:1"))
    for other in (Resend("h", "a:1;b:2"), Resend("g", "a:1")):
        record_of_resend(at.env, other).close(done=True)
    first.close(done=True)


def test_a_resend_remembers_the_last() -> None:
    resend = Resend("g", "a:1")
    for number in range(MAX_SENT + 2):
        resend.add(str(number), "t")
    assert len(resend.sent) == MAX_SENT
    assert next(iter(resend.sent)) == "2"
