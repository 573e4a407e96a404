"""Stores damaged on purpose, and what the check says about each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE
from mqctl.store.offline import check_queue, findings
from mqctl.store.offline import verify as verifying
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.verify import verify
from tests.unit.store.stores import crash_copy, drop_without_close, message, new_store, numbered, opened, put_all

QUEUE = "consumequeue/t/0/00000000000000000000"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Ten messages in each of two queues of t, with tags, over several files."""
    with opened(tmp_path / "store") as store:
        for number in range(10):
            put_all(store, [message(b"%08d" % number, queue_id=queue_id, tags="paid") for queue_id in (0, 1)])
    return tmp_path / "store"


def check(root: Path, **options: Any) -> Report:
    return verify(StoreFolder(root), json.loads, **options)


def damages(root: Path) -> list[tuple[str, int | None, str]]:
    report = check(root)
    assert report.damaged
    return [finding[1:] for finding in report.findings if finding.severity == "damage"]


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def entry(root: Path, queue_offset: int, queue_id: int = 0) -> tuple[int, int, int]:
    found = StoreFolder(root).queues[queue_id].entry(queue_offset)
    assert found is not None
    return found


def set_entry(root: Path, queue_offset: int, *values: int) -> None:
    overwrite(root / QUEUE, queue_offset * ENTRY_SIZE, ENTRY.pack(*values))


# -- sound ----------------------------------------------------------------------------------------------


def test_a_sound_store(root: Path) -> None:
    report = check(root)
    assert (report.records, report.entries, report.findings, report.damaged) == (20, 20, [], False)


def test_pieces_that_are_compared_one_by_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_queue, "PIECE", ENTRY_SIZE)
    assert check(root).findings == []


def test_a_store_without_messages(tmp_path: Path) -> None:
    with opened(tmp_path / "s"):
        pass
    assert check(tmp_path / "s").findings == []


def test_deleted_log_files_are_no_damage(root: Path) -> None:
    (root / "commitlog" / f"{0:020d}").unlink()
    report = check(root)
    assert report.findings == []
    assert report.records == report.entries < 20


def test_a_topic_deleted_and_made_again(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, numbered(7, tags="old"))
        store.flush_queues()
        store.drop_topic("t")
        put_all(store, numbered(3))
    report = check(tmp_path / "s")
    assert (report.records, report.entries, report.findings) == (10, 3, [])


def test_a_deleted_topic_is_a_note(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "t")
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"other": {}}}')
    report = check(root)
    assert not report.damaged
    assert [finding.severity for finding in report.findings] == ["note", "note"]
    assert "10 of its records are still in the log" in report.findings[0].what


def test_tags_codes_that_are_something_else(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, [message(topic="SCHEDULE_TOPIC_XXXX", tags="a", tags_code=1_700_000_000_000)])
        put_all(store, [message(topic="t", tags="a", tags_code=-(1 << 63) + 40)])
    assert check(tmp_path / "s").findings == []


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (b"a\x01b\x02TAGS\x01x\x02", "x"),
        (b"MYTAGS\x01y\x02TAGS\x01x", "x"),
        (b"TAGS\x01x\x02MYTAGS\x01y", "x"),
        (b"a\x01TAGS\x01y", ""),
        (b"TAGS\x01", ""),
        (b"TAGS\x01x\x02TAGS\x01z", "z"),
    ],
)
def test_tags_wherever_they_stand(tmp_path: Path, text: bytes, tags: str) -> None:
    code = message(tags=tags).tags_code
    with opened(tmp_path / "s") as store:
        put_all(store, [message(properties=text, tags_code=code)])
    assert check(tmp_path / "s").findings == []


def test_a_multi_dispatched_entry(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, [message(properties=b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b")])
    shutil.copytree(tmp_path / "s/consumequeue/t", tmp_path / "s/consumequeue/%LMQ%b")
    assert check(tmp_path / "s").findings == []


def test_half_and_rolled_back_records_have_no_entry(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, [message(sys_flag=0x4), message(sys_flag=0xC)])
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    assert check(tmp_path / "s").findings == []


# -- in use ---------------------------------------------------------------------------------------------


def test_a_store_in_use_has_queues_that_lag(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    try:
        put_all(store, numbered(5))
        store.flush_queues()
        put_all(store, numbered(3))  # not in the queue's file yet
        report = check(tmp_path / "s")
        assert not report.damaged
        [note] = report.findings
        assert note.file == "consumequeue/t/0"
        assert note.what.startswith("3 entries are missing, from queue offset 5 on: ")
    finally:
        store.close()
    assert check(tmp_path / "s").findings == []


def test_a_crashed_store(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    put_all(store, numbered(5))
    copy = crash_copy(store, tmp_path / "copy")
    drop_without_close(store)
    store._lock.release()
    assert [finding.severity for finding in check(copy).findings] == ["note"]
    (copy / "abort").unlink()
    assert [what for _, _, what in damages(copy)] == ["5 entries are missing, from queue offset 0 on"]


def test_cleaning_meanwhile_is_no_damage(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, numbered(25))
    root = tmp_path / "s"
    folder = StoreFolder(root)
    assert folder.queues[0].max_offset == 25
    (root / QUEUE).unlink()
    assert verify(folder, json.loads).findings == []  # the queue's file went, the log's was still read
    (root / "commitlog" / f"{0:020d}").unlink()
    assert verify(folder, json.loads).findings == []


# -- damage ---------------------------------------------------------------------------------------------


def test_a_changed_body(root: Path) -> None:
    place = entry(root, 1)[0]
    overwrite(root / "commitlog" / f"{0:020d}", place + 90, b"?")
    assert damages(root) == [
        (f"commitlog/{0:020d}", place, "the body's CRC does not match; record of t/0@1"),
    ]


@pytest.mark.parametrize("topic", [b"\0", b"/", b"."])
def test_a_topic_that_cannot_be_one(root: Path, topic: bytes) -> None:
    place = entry(root, 1)[0]
    overwrite(root / "commitlog" / f"{0:020d}", place + 97, topic)
    log, queue = damages(root)
    assert log == (f"commitlog/{0:020d}", place, f"the topic {topic!r} cannot be one")
    assert queue[:2] == (QUEUE, ENTRY_SIZE)


def test_a_lost_record_is_missed_by_its_queue(root: Path) -> None:
    place = entry(root, 1)[0]
    overwrite(root / "commitlog" / f"{0:020d}", place + 4, b"\0")
    log, queue = damages(root)
    assert log[:2] == (f"commitlog/{0:020d}", place)
    assert queue == (QUEUE, ENTRY_SIZE, f"queue offset 1: points to log offset {place}, where no sound record is")


def test_a_queue_offset_that_goes_back(root: Path) -> None:
    place = entry(root, 2)[0]
    overwrite(root / "commitlog" / f"{0:020d}", place + 20, (9).to_bytes(8, "big"))
    assert damages(root) == [(f"commitlog/{0:020d}", place, "the queue offset cannot be right; record of t/0@9")]


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ((1, 0, 0), "queue offset 4: points to log offset {0}, its record is at {3}"),
        ((0, 1, 0), "queue offset 4: says {1} bytes, the record at {3} has {4}"),
        ((0, 0, 1), "queue offset 4: has tags code {2}, the tag of the record at {3} has {5}"),
    ],
)
def test_an_entry_that_differs(root: Path, values: tuple[int, int, int], what: str) -> None:
    right = entry(root, 4)
    wrong = [a + b for a, b in zip(right, values, strict=True)]
    set_entry(root, 4, *wrong)
    assert damages(root) == [(QUEUE, 4 * ENTRY_SIZE, what.format(*wrong, *right))]


def test_an_entry_too_many(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, numbered(3))
    first = entry(tmp_path / "s", 0)
    set_entry(tmp_path / "s", 3, *first)
    set_entry(tmp_path / "s", 4, 1 << 40, 100, 0)
    assert [what for _, _, what in damages(tmp_path / "s")] == [
        "queue offset 3: points to the record of t/0@0 at 0",
        f"queue offset 4: points to log offset {1 << 40}, where no sound record is",
    ]


def test_a_lost_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "t" / "1")
    assert damages(root) == [("consumequeue/t/1", None, "10 entries are missing, from queue offset 0 on")]


def test_a_hole_in_a_queue_is_damage_even_if_not_clean(root: Path) -> None:
    (root / "abort").touch()
    set_entry(root, 1, 0, 0, 0)
    assert damages(root) == [("consumequeue/t/0", None, "1 entries are missing, from queue offset 1 on")]


def test_a_log_file_lost_from_the_middle(root: Path) -> None:
    (root / "commitlog" / f"{1024:020d}").unlink()
    found = damages(root)
    assert (f"commitlog/{2048:020d}", None) == found[0][:2]
    assert "nothing is there between" in found[0][2]
    assert all("where no sound record is" in what for _, _, what in found[1:])
    assert len(found) > 1


def test_a_queue_file_lost_from_the_middle(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        put_all(store, numbered(25))
    (tmp_path / "s/consumequeue/t/0" / f"{200:020d}").unlink()
    gap, missing = damages(tmp_path / "s")
    assert gap[0] == f"consumequeue/t/0/{400:020d}"
    assert missing == ("consumequeue/t/0", None, "10 entries are missing, from queue offset 10 on")


def test_a_log_file_cut_short(root: Path) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.truncate(512)
    assert (f"commitlog/{0:020d}", None, "has 512 bytes where the others have 1024") in damages(root)


def test_many_findings_are_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_PER_FILE", 2)
    for queue_offset in range(10):
        set_entry(root, queue_offset, 7, 7, 7)
    found = damages(root)
    assert [position for _, position, _ in found] == [0, 20, None]
    assert found[-1] == (QUEUE, None, "8 more of these")


def test_config_files(root: Path) -> None:
    config = root / "config"
    config.mkdir()
    (config / "topics.json").write_text('{"topicConfigTable": ')
    (config / "consumerOffset.json").write_text("")
    (config / "delayOffset.json").write_text("{}")
    (config / "delayOffset.json.bak").write_text("nonsense")
    (config / "subscriptionGroup.json.bak").write_text("{}")
    report = check(root)
    assert [finding[:3] for finding in report.findings] == [
        ("note", "config/consumerOffset.json", None),
        ("note", "config/delayOffset.json.bak", None),
        ("note", "config/subscriptionGroup.json", None),
        ("damage", "config/topics.json", None),
    ]
    assert report.config == [config / "topics.json"]
    assert not report.findings[-1].what.endswith("its backup is sound")
    (config / "topics.json.bak").write_text("{}")
    assert check(root).findings[-1].what.endswith("its backup is sound")


def test_progress(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "STEP", 500)
    steps: list[tuple[int, int]] = []
    check(root, on_progress=lambda done, total: steps.append((done, total)))
    assert len(steps) >= 3
    assert steps == sorted(steps)
    assert {total for _, total in steps} == {StoreFolder(root).log.end}
