"""Stores damaged in every way we can think of, repaired: what was not hit is all there, and nothing was deleted."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE
from mqctl.store.indexfile import Geometry
from mqctl.store.offline import logrepair
from mqctl.store.offline.changing import changing
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.rebuild import known_topics, rebuild
from mqctl.store.offline.repair import Action, plan, repair
from mqctl.store.offline.verify import verify
from mqctl.store.store import MessageStore, StoreConfig
from tests.unit.store.stores import FILE, HOST, QUEUE_ENTRIES, Clock, bodies, files_below, message, put_all

GEOMETRY = Geometry(hash_slots=7, max_entries=16)
QUEUE = "consumequeue/t/0/00000000000000000000"


def small_config(root: Path) -> StoreConfig:
    return StoreConfig(
        root=root,
        commitlog_dir=root / "commitlog",
        commitlog_file_size=FILE,
        queue_file_size=QUEUE_ENTRIES * ENTRY_SIZE,
        index=GEOMETRY,
    )


def opened(root: Path) -> MessageStore:
    store = MessageStore(small_config(root), HOST, Clock(2_000_000))
    store.open()
    return store


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 messages in each of two queues of t, with keys, over several files of each kind."""
    root = tmp_path_factory.mktemp("sound") / "store"
    store = opened(root)
    for number in range(12):
        for queue_id in (0, 1):
            properties = f"KEYS\x01k{number} q{queue_id}\x02TAGS\x01paid".encode()
            code = message(tags="paid").tags_code
            put_all(store, [message(b"%08d" % number, queue_id=queue_id, properties=properties, tags_code=code)])
    store.close()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"t": {}}}')
    return root


@pytest.fixture
def root(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "store"))


def check(root: Path) -> Report:
    return verify(StoreFolder(root), json.loads)


def mend(root: Path) -> list[Action]:
    """Repairs the store; it must be without damage then, and nothing may have been deleted."""
    before = check(root)
    assert before.damaged
    done: list[Action] = []
    after = repair(before, json.loads, done.append)
    assert not after.damaged, after.findings
    assert not check(root).damaged
    return done


def served(root: Path) -> dict[int, list[bytes]]:
    """What a broker gives to consumers: lost places are left out."""
    store = opened(root)
    try:
        return {queue_id: _bodies(store, queue_id) for queue_id in (0, 1)}
    finally:
        store.close()


def _bodies(store: MessageStore, queue_id: int) -> list[bytes]:
    queue = store.queues.get(("t", queue_id))
    found = []
    for queue_offset in range(queue.min_offset, queue.max_offset) if queue is not None else ():
        assert queue is not None
        entry = queue.entry(queue_offset)
        data = None if entry is None else store.log.read(*entry[:2])
        if data is not None:
            parsed = record.parse(data, 0, check_crc=True)
            assert (parsed.topic, parsed.queue_id) == ("t", queue_id)
            if parsed.queue_offset == queue_offset:
                found.append(parsed.body)
            else:  # it stands for one that is lost
                assert parsed.queue_offset > queue_offset
    return found


ALL = [b"%08d" % number for number in range(12)]


def place_of(root: Path, queue_id: int, queue_offset: int) -> tuple[Path, int]:
    """The file and the position of a record."""
    store = StoreFolder(root)
    entry = store.queues[queue_id].entry(queue_offset)
    assert entry is not None
    file = store.log.file_at(entry[0])
    assert file is not None
    return file.path, entry[0] - file.start


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


# -- the log --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, bytes(4)),  # its size
        (4, b"\0"),  # its magic
        (20, (99).to_bytes(8, "big")),  # its queue offset
        (20, (1).to_bytes(8, "big")),
        (20, bytes(8)),
        (28, b"\1"),  # its place
        (92, b"?"),  # its body
        (97, b"/"),  # its topic
    ],
)
@pytest.mark.parametrize("queue_offset", [0, 3, 11])
def test_a_damaged_record_costs_itself_alone(root: Path, at: int, data: bytes, queue_offset: int) -> None:
    if at == 20 and data == queue_offset.to_bytes(8, "big"):
        return
    path, position = place_of(root, 1, queue_offset)
    overwrite(path, position + at, data)
    mend(root)
    left = served(root)
    assert left[0] == ALL
    assert left[1] == [body for number, body in enumerate(ALL) if number != queue_offset]
    assert (root / "damaged").is_dir()


def test_what_is_set_aside_is_what_was_there(root: Path) -> None:
    path, position = place_of(root, 0, 3)
    overwrite(path, position + 92, b"?")
    data = path.read_bytes()
    action = mend(root)[0]
    size = record.size_of(data[position:])
    assert action.lost == "the body's CRC does not match; record of t/0@3"
    start = int(path.name) + position
    assert (root / "damaged" / f"{start:020d}").read_bytes() == data[position : position + size]
    assert (root / "damaged" / "consumequeue" / "t" / "0").is_dir()


def test_a_second_repair_overwrites_nothing(root: Path) -> None:
    for number in (3, 4):
        path, position = place_of(root, 0, number)
        overwrite(path, position + 92, b"?")
        mend(root)
    assert {path.name for path in (root / "damaged/consumequeue/t").iterdir()} == {"0", "0.2"}
    assert served(root) == {0: [*ALL[:3], *ALL[5:]], 1: ALL}
    store = StoreFolder(root)
    found = list(store.messages(store.queues[0], 3, 6))
    assert found[:2] == [f"t/0@{number}: the message is lost, that of offset 5 stands for it" for number in (3, 4)]
    assert not isinstance(found[2], str)
    assert found[2].body == ALL[5]


def test_damage_up_to_a_file_s_end_becomes_a_blank(root: Path) -> None:
    path = root / "commitlog" / f"{0:020d}"
    overwrite(path, FILE // 2, b"\xff" * (FILE // 2))
    mend(root)
    left = served(root)
    assert 0 < len(left[0]) < 12
    assert left[0] == [*ALL[: 12 - len(left[0])][:0], *[body for body in ALL if body in left[0]]]
    assert left[0][-1] == ALL[-1]


def test_a_large_hole_is_filled_with_several_records(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logrepair, "MAX_FILLER", 200)
    path, position = place_of(root, 0, 1)
    end_path, end = place_of(root, 0, 3)
    assert path == end_path
    overwrite(path, position, b"\xee" * (end - position))
    mend(root)
    left = served(root)
    assert (left[0], left[1]) == ([ALL[0], *ALL[3:]], [ALL[0], *ALL[3:]])


def test_a_torn_end_becomes_zeros(root: Path) -> None:
    path, position = place_of(root, 1, 11)
    overwrite(path, position + 60, b"\xee" * 500)
    mend(root)
    assert not any(path.read_bytes()[position:])
    assert served(root) == {0: ALL, 1: ALL[:-1]}


@pytest.mark.parametrize("size", [512, 2 * FILE])
def test_a_log_file_of_another_size(root: Path, size: int) -> None:
    path = root / "commitlog" / f"{FILE:020d}"
    with path.open("r+b") as file:
        file.truncate(size)
    mend(root)
    assert path.stat().st_size == FILE
    left = served(root)
    assert (left[0] == ALL) == (size > FILE)
    assert left[0][-1] == ALL[-1]


def test_a_lost_log_file(root: Path) -> None:
    (root / "commitlog" / f"{FILE:020d}").unlink()
    mend(root)
    left = served(root)
    assert left[0][0] == ALL[0]
    assert left[0][-1] == ALL[-1]
    assert 0 < len(left[0]) < 12


# -- what follows from it -------------------------------------------------------------------------------


def test_queues_and_index(root: Path) -> None:
    overwrite(root / QUEUE, 0, ENTRY.pack(7, 7, 7))
    shutil.rmtree(root / "consumequeue" / "t" / "1")
    newest = sorted((root / "index").iterdir())[-1]
    overwrite(newest, GEOMETRY.entry_at(2), b"\xff" * 20)
    mend(root)
    assert served(root) == {0: ALL, 1: ALL}


def test_config_files(root: Path) -> None:
    config = root / "config"
    (config / "topics.json").rename(config / "topics.json.bak")
    (config / "topics.json").write_text("{")
    (config / "delayOffset.json").write_text("{")
    (config / "consumerOffset.json").write_text("{}")
    mend(root)
    assert (config / "topics.json").read_bytes() == (config / "topics.json.bak").read_bytes()
    assert sorted(path.name for path in config.iterdir()) == ["consumerOffset.json", "topics.json", "topics.json.bak"]
    assert files_below(root / "damaged") == ["config/delayOffset.json", "config/topics.json"]


def test_a_checkpoint(root: Path) -> None:
    overwrite(root / "checkpoint", 0, b"\xff" * 24)
    mend(root)
    assert served(root) == {0: ALL, 1: ALL}


def test_a_plan_changes_nothing(root: Path) -> None:
    path, position = place_of(root, 0, 3)
    overwrite(path, position + 92, b"?")
    before = {name: (root / name).read_bytes() for name in files_below(root)}
    assert len(plan(check(root), json.loads, lambda done, total: None)) == 2
    assert {name: (root / name).read_bytes() for name in files_below(root)} == before


def test_the_store_is_marked_until_the_work_is_done(root: Path) -> None:
    with pytest.raises(ZeroDivisionError), changing(StoreFolder(root)):
        assert not StoreFolder(root).clean
        raise ZeroDivisionError
    assert (root / "abort").exists()
    assert served(root) == {0: ALL, 1: ALL}


# -- anything -------------------------------------------------------------------------------------------

Hit = tuple[int, int, int]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hits=st.lists(
        st.tuples(st.integers(0, 1 << 30), st.integers(1, 40), st.integers(0, 1 << 30)), min_size=1, max_size=4
    )
)
def test_bytes_anywhere(sound: Path, hits: list[Hit]) -> None:
    """Whatever is overwritten, a repaired store is sound, opens, and serves no message that was not sent."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(shutil.copytree(sound, Path(folder) / "store"))
        paths = [root / name for name in files_below(root) if name.startswith(("commitlog", "consumequeue", "index"))]
        for which, length, seed in hits:
            path = paths[which % len(paths)]
            noise = random.Random(seed)
            overwrite(path, noise.randrange(path.stat().st_size - length), noise.randbytes(length))
        report = check(root)
        if report.damaged:
            report = repair(report, json.loads, lambda action: None)
        left = [what for severity, _, _, what in report.findings if severity == "damage"]
        assert all("goes back" in what for what in left), left
        for queue_bodies in served(root).values():
            assert set(queue_bodies) <= set(ALL)


# -- rebuilding -----------------------------------------------------------------------------------------


def rebuilt(root: Path) -> None:
    store = StoreFolder(root)
    exists = known_topics(store, json.loads)
    with changing(store):
        rebuild(store, lambda topic, queue_id: exists(topic), index=True, on_progress=lambda done, total: None)


def test_rebuilt_files_are_those_that_were_there(root: Path) -> None:
    before = {name: (root / name).read_bytes() for name in files_below(root) if name.startswith("consumequeue")}
    index = [path.read_bytes() for path in sorted((root / "index").iterdir())]
    rebuilt(root)
    assert {name: (root / name).read_bytes() for name in before} == before
    assert [path.read_bytes() for path in sorted((root / "index").iterdir())] == index
    assert check(root).findings == []
    assert {path.name for path in (root / "damaged").iterdir()} == {"consumequeue", "index"}


def test_from_the_log_alone(root: Path) -> None:
    index = [path.read_bytes() for path in sorted((root / "index").iterdir())]
    shutil.rmtree(root / "consumequeue")
    rebuilt(root)
    assert (root / QUEUE).stat().st_size == 6_000_000
    assert [path.read_bytes() for path in sorted((root / "index").iterdir())] == index
    assert check(root).findings == []


def test_deleted_topics_stay_so_and_queues_without_records_too(tmp_path: Path) -> None:
    root = tmp_path / "s"
    store = opened(root)
    put_all(store, [message(topic=topic) for topic in ("gone", "kept", "gone")])
    store.drop_topic("gone")
    store.close()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"kept": {}, "old": {}}}')
    shutil.copytree(root / "consumequeue" / "kept", root / "consumequeue" / "old")
    rebuilt(root)
    assert sorted(path.name for path in (root / "consumequeue").iterdir() if any(path.iterdir())) == ["kept", "old"]


def test_a_topic_made_again_counts_from_its_new_beginning(tmp_path: Path) -> None:
    root = tmp_path / "s"
    store = opened(root)
    put_all(store, [message(b"old")] * 3)
    store.drop_topic("t")
    put_all(store, [message(b"new-1"), message(b"new-2")])
    store.close()
    rebuilt(root)
    store = opened(root)
    assert bodies(store) == [b"new-1", b"new-2"]
    store.close()
