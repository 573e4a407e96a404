"""Index files that do not agree with themselves or with the log, and what the check says about each."""

from __future__ import annotations

import json
import shutil
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from mqctl.store.indexfile import ENTRY, HEADER, SLOT, Geometry, Header
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.indexes import find_geometries
from mqctl.store.offline.sizes import index_geometry
from mqctl.store.offline.verify import verify
from mqctl.store.store import MessageStore, StoreConfig
from tests.unit.store.stores import HOST, Clock, message, put_all

GEOMETRY = Geometry(hash_slots=7, max_entries=16)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """10 messages with two keys each, a second apart: 20 entries, 15 to a file."""
    clock = Clock()
    config = StoreConfig(root=tmp_path / "s", commitlog_dir=tmp_path / "s/commitlog", index=GEOMETRY)
    store = MessageStore(config, HOST, clock)
    store.open()
    for number in range(10):
        clock.now_ms += 1000
        put_all(store, [message(properties=f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number}".encode())])
        put_all(store, [message()])
    store.close()
    return tmp_path / "s"


def check(root: Path) -> Report:
    return verify(StoreFolder(root), json.loads)


def damages(root: Path) -> list[tuple[int | None, str]]:
    report = check(root)
    assert report.index
    found = [finding for finding in report.findings if finding.severity == "damage"]
    assert all(finding.file.startswith("index") for finding in found)
    return [(finding.position, finding.what) for finding in found]


def notes(root: Path) -> list[str]:
    report = check(root)
    assert not report.damaged, report.findings
    return [finding.what for finding in report.findings]


def file_of(root: Path, number: int = 0) -> Path:
    return sorted((root / "index").iterdir())[number]


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def entry(path: Path, number: int) -> tuple[int, int, int, int]:
    return ENTRY.unpack_from(path.read_bytes(), GEOMETRY.entry_at(number))


def set_entry(path: Path, number: int, *values: int) -> None:
    overwrite(path, GEOMETRY.entry_at(number), ENTRY.pack(*values))


def header(path: Path) -> Header:
    return Header(*HEADER.unpack_from(path.read_bytes()))


def test_a_sound_index(root: Path) -> None:
    report = check(root)
    assert (report.keys, report.findings, report.index) == (20, [], False)


def test_the_layout_is_found_from_the_first_entry(root: Path) -> None:
    store = StoreFolder(root)
    assert find_geometries(store)[GEOMETRY.file_size] == GEOMETRY
    assert index_geometry(store) == GEOMETRY


def test_a_link_that_leads_elsewhere(root: Path) -> None:
    path = file_of(root)
    key_hash, phys_offset, seconds, previous = entry(path, 5)
    set_entry(path, 5, key_hash, phys_offset, seconds, 5)
    found = damages(root)
    assert found[0] == (GEOMETRY.entry_at(5), f"entry 5: links to entry 5, the one before it in its slot is {previous}")
    assert "keys are not filed" in found[1][1]


def test_a_hash_that_no_key_has(root: Path) -> None:
    path = file_of(root)
    key_hash, *rest = entry(path, 15)
    set_entry(path, 15, key_hash + GEOMETRY.hash_slots, *rest)
    [(position, what), (_, missing)] = damages(root)
    assert position == GEOMETRY.entry_at(15)
    assert what == f"entry 15: the message at {rest[0]} has no such key"
    assert missing == f"1 keys are not filed, from the message at {rest[0]} on"


def test_an_entry_that_leads_to_no_message(root: Path) -> None:
    path = file_of(root)
    key_hash, phys_offset, seconds, previous = entry(path, 15)
    set_entry(path, 15, key_hash, phys_offset + 1, seconds, previous)
    found = [what for _, what in damages(root)]
    assert f"entry 15: leads to log offset {phys_offset + 1}, where no message with keys is" in found


def test_entries_that_go_back(root: Path) -> None:
    path = file_of(root)
    key_hash, _, seconds, previous = entry(path, 4)
    set_entry(path, 4, key_hash, 0, seconds, previous)
    assert damages(root)[0][1].startswith("entry 4: goes back in the log, to 0 from ")


def test_a_time_that_is_not_the_message_s(root: Path) -> None:
    path = file_of(root)
    key_hash, phys_offset, seconds, previous = entry(path, 15)
    set_entry(path, 15, key_hash, phys_offset, seconds + 60, previous)
    [(_, what)] = damages(root)
    assert what.startswith(f"entry 15: says {seconds + 60} s after the file's begin")


def test_a_slot(root: Path) -> None:
    path = file_of(root)
    overwrite(path, GEOMETRY.slot_at(3), SLOT.pack(0))
    [(position, what)] = damages(root)
    assert position == GEOMETRY.slot_at(3)
    assert what.startswith("slot 3 names entry 0, its newest is ")
    (root / "abort").touch()
    assert notes(root) == [f"{what}: the store is in use or was not closed"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"used_slots": 1}, "the header says 1 used slots"),
        ({"begin_phys_offset": 0, "end_phys_offset": 7}, "the header says log offsets 0 to 7"),
        ({"begin_phys_offset": -1}, "is no index file: offsets -1 to"),
        ({"next_entry": 99}, "is no index file: next entry 99"),
    ],
)
def test_a_header(root: Path, change: dict[str, int], complaint: str) -> None:
    path = file_of(root, 1)
    overwrite(path, 0, HEADER.pack(*astuple(replace(header(path), **change))))
    assert any(what.startswith(complaint) for _, what in damages(root))


def test_a_file_cut_short(root: Path) -> None:
    path = file_of(root, 1)
    with path.open("r+b") as file:
        file.truncate(100)
    assert damages(root)[0][1].startswith("has 100 bytes, and no entry that tells")


def test_the_newest_file_lost(root: Path) -> None:
    file_of(root, 1).unlink()
    assert "5 keys are not filed, from the message at" in damages(root)[0][1]
    (root / "abort").touch()
    assert notes(root)[0].endswith("in use or was not closed, a start adds them")


def test_older_keys_may_be_missing(root: Path) -> None:
    file_of(root, 0).unlink()
    [note] = notes(root)
    assert note.startswith("15 keys of older messages are not filed")


def test_no_index_at_all(root: Path) -> None:
    shutil.rmtree(root / "index")
    assert notes(root) == ["there is no index; 20 keys are in the log"]


def test_entries_of_deleted_log_files_are_no_damage(tmp_path: Path) -> None:
    config = StoreConfig(
        root=tmp_path, commitlog_dir=tmp_path / "commitlog", commitlog_file_size=1024, index=Geometry(7, 99)
    )
    store = MessageStore(config, HOST, Clock())
    store.open()
    put_all(store, [message(properties=b"KEYS\x01k%d" % number) for number in range(20)])
    store.close()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    report = check(tmp_path)
    [note] = [finding.what for finding in report.findings if finding.file.startswith("index")]
    assert note.startswith("not checked")
    assert not report.damaged
