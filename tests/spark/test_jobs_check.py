"""check finds what was broken, and nothing where nothing is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from mqctl.store.checkpoint import NO_CHECKPOINT, read_checkpoint, write_checkpoint
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE
from mqctl.store.indexfile import HEADER
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.scan.records import HEADS
from spark import check
from spark.checklog import MAX_TIMESTAMP
from spark.checktimes import checkpoint_findings
from spark.result import Ask
from spark.stores import Stores
from tests.spark.storing import INDEX, QUEUE_FILE, keeping

TOPIC: Final = "orders"
COUNT: Final = 400


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several files of each kind."""
    root = tmp_path_factory.mktemp("sound")
    with keeping(root) as keeper:
        for number in range(COUNT):
            names = {"TAGS": ("A", "漢字")[number % 2], "KEYS": f"key-{number} many", "UNIQ_KEY": f"{number:032d}"}
            keeper.put(TOPIC, number % 2, bytes(500), **names)
        keeper.delay(1, keeper.clock.now_ms + 1000, TOPIC)
        keeper.put("gone", UNIQ_KEY="g")
        keeper.write_topics(TOPIC, "SCHEDULE_TOPIC_XXXX")
    shutil.rmtree(root / "consumequeue" / "gone")
    assert all(len(list((root / kind).iterdir())) > 2 for kind in ("commitlog", "index", f"consumequeue/{TOPIC}/0"))
    return root


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def second_file(folder: Path) -> Path:
    return sorted(folder.iterdir())[1]


def place(root: Path, queue_offset: int) -> tuple[Path, int]:
    """Of a record in the log."""
    store = StoreFolder(root)
    entry = store.queues_of(TOPIC, 0)[0].entry(queue_offset)
    assert entry is not None
    file = store.log.file_at(entry[0])
    assert file is not None
    return file.path, entry[0] - file.start


def damage_body(root: Path) -> None:
    path, position = place(root, 20)
    overwrite(path, position + 100, b"?")


def damage_head(root: Path) -> None:
    path, position = place(root, 40)
    overwrite(path, position, b"\xff" * 16)


def damage_middle_of_zeros(root: Path) -> None:
    path, position = place(root, 60)
    overwrite(path, position, bytes(ENTRY_SIZE))


def damage_queue_offset(root: Path) -> None:
    path, position = place(root, 30)
    overwrite(path, position + 27, b"\7")


def damage_queue(root: Path) -> None:
    overwrite(second_file(root / "consumequeue" / TOPIC / "0"), 2 * ENTRY_SIZE, ENTRY.pack(1, 2, 3))


def damage_tags_code(root: Path) -> None:
    path = second_file(root / "consumequeue" / TOPIC / "1")
    overwrite(path, 3 * ENTRY_SIZE + 12, bytes(8))


def damage_entry_size(root: Path) -> None:
    path = second_file(root / "consumequeue" / TOPIC / "1")
    overwrite(path, 5 * ENTRY_SIZE + 8, (77).to_bytes(4, "big"))


def lengthen_queue_file(root: Path) -> None:
    path = sorted((root / "consumequeue" / TOPIC / "1").iterdir())[-1]
    overwrite(path, QUEUE_FILE, bytes(ENTRY_SIZE))


def damage_store_time(root: Path) -> None:
    path, position = place(root, 25)
    overwrite(path, position + HEADS[0].fields["store_time"][1], MAX_TIMESTAMP.to_bytes(8, "big"))


def damage_slot_count(root: Path) -> None:
    path = second_file(root / "index")
    *others, _, next_entry = HEADER.unpack(path.read_bytes()[: HEADER.size])
    overwrite(path, 0, HEADER.pack(*others, 77, next_entry))


def lose_queue_file(root: Path) -> None:
    second_file(root / "consumequeue" / TOPIC / "0").unlink()


def damage_slot(root: Path) -> None:
    overwrite(second_file(root / "index"), HEADER.size, b"\0\0\0\1" + b"\0" * 36)


def damage_link(root: Path) -> None:
    overwrite(sorted((root / "index").iterdir())[2], INDEX.entry_at(100) + 16, b"\0\0\0\x64")


def damage_hash(root: Path) -> None:
    overwrite(sorted((root / "index").iterdir())[0], INDEX.entry_at(50), b"\0\0\0\7")


def lose_index_file(root: Path) -> None:
    second_file(root / "index").unlink()


def lose_log_file(root: Path) -> None:
    second_file(root / "commitlog").unlink()


def damage_config(root: Path) -> None:
    (root / "config" / "subscriptionGroup.json").write_text("{")


def damage_checkpoint(root: Path) -> None:
    overwrite(root / "checkpoint", 0, b"\xff" * 8)


# In groups of those that do not hide each other: a check takes seconds.
DAMAGES: Final[list[dict[str, Callable[[Path], None]]]] = [
    {
        "the body's CRC does not match; record of orders/0@20": damage_body,
        "no record, nor a blank": damage_head,
        "zeros, with records behind them": damage_middle_of_zeros,
        "the queue offset cannot be right; record of orders/0@7": damage_queue_offset,
        "queue offset 52: points to log offset 1, its record is at": damage_queue,
        "has tags code 0, the tag of the record at": damage_tags_code,
        f"has {QUEUE_FILE + ENTRY_SIZE} bytes where the others have {QUEUE_FILE}": lengthen_queue_file,
        "queue offset 55: says 77 bytes, the record at": damage_entry_size,
        f"the store time {MAX_TIMESTAMP} cannot be one; record of orders/0@25": damage_store_time,
        "slot 0 names entry 1": damage_slot,
        "the header says 77 used slots, there are": damage_slot_count,
        "entry 50: links to entry": damage_hash,
        "entry 100: links to entry 100": damage_link,
        "is not JSON": damage_config,
        "holds no times": damage_checkpoint,
    },
    {
        "nothing is there between": lose_log_file,
        "where no record of this queue is": lambda root: None,  # of the same damage
    },
    {
        "50 entries are missing, from queue offset 50 on": lose_queue_file,
        "keys are not filed": lose_index_file,
    },
]


@pytest.mark.parametrize("damages", DAMAGES, ids=lambda damages: next(iter(damages)))
def test_damage_is_found(
    spark: SparkSession, sound: Path, tmp_path: Path, damages: dict[str, Callable[[Path], None]]
) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "copy"))
    for damage in damages.values():
        damage(root)
    result = check.run(Stores(spark, f"broker-a={root}"), Ask())
    assert result.exit_code == 1
    found = [row["what"] for row in result.frame.collect() if row["severity"] == "damage"]
    for said in damages:
        assert any(said in what for what in found), (said, found)


def test_a_sound_store(spark: SparkSession, sound: Path, tmp_path: Path) -> None:
    """The records of a topic that was deleted are no damage. Log, queues and index may be links to where broker.conf
    has put them."""
    for each in sound.iterdir():
        (tmp_path / each.name).symlink_to(each)
    result = check.run(Stores(spark, f"broker-a={tmp_path}"), Ask())
    assert (result.exit_code, list(result.notes)) == (0, ["no damage was found"])
    [note] = result.frame.collect()
    assert (note["severity"], note["file"]) == ("note", "consumequeue/gone/0")
    assert note["what"] == "the topic is gone; 1 of its records are still in the log"


def test_a_count_that_was_cut_off_is_no_exact_one() -> None:
    said = [check.summary(count) for count in (0, 999, 1000)]
    assert said == ["no damage was found", "999 findings are damage", "at least 1000 findings are damage"]


def test_a_checkpoint_beyond_the_log(spark: SparkSession, sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "copy"))
    stores = Stores(spark, f"broker-a={root}")
    checkpoint = read_checkpoint(root / "checkpoint")
    write_checkpoint(root / "checkpoint", checkpoint._replace(index_timestamp=checkpoint.physic_timestamp + 1))
    [found] = checkpoint_findings(stores)
    assert (found.severity, found.file) == ("note", "checkpoint")
    assert found.what.startswith(f"the log once reached {checkpoint.physic_timestamp + 1} and now ends at ")
    (root / "checkpoint").unlink()
    [found] = checkpoint_findings(stores)
    assert (found.severity, found.what) == ("note", NO_CHECKPOINT)
