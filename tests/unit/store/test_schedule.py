"""Delay levels and what recovery makes of delayed messages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mqctl.store.properties import join_properties
from mqctl.store.schedule import DEFAULT_LEVELS, SCHEDULE_TOPIC, delivery_time, parse_levels
from mqctl.store.store import MessageStore, NewMessage, StoreConfig


def test_the_default_levels() -> None:
    levels = parse_levels(DEFAULT_LEVELS)
    assert (len(levels), levels[0], levels[2], levels[17]) == (18, 1000, 10_000, 7_200_000)


@pytest.mark.parametrize("text", ["1x", "s", "1s five"])
def test_what_is_no_level(text: str) -> None:
    with pytest.raises(ValueError):
        parse_levels(text)


@pytest.mark.parametrize(
    ("level", "due"), [("1", 1000), ("3", 10_000), ("18", 7_200_000), ("99", 7_200_000), ("0", None), ("x", None)]
)
def test_delivery_time(level: str, due: int | None) -> None:
    found = delivery_time(join_properties({"DELAY": level}), 5_000_000)
    assert found == (None if due is None else 5_000_000 + due)


def test_rebuilt_entries_of_delayed_messages_hold_their_time(tmp_path: Path) -> None:
    config = StoreConfig(root=tmp_path, commitlog_dir=tmp_path / "commitlog", commitlog_file_size=1 << 20, index=None)
    store = MessageStore(config, ("127.0.0.1", 10911), clock=lambda: 1000.0)
    store.open()
    properties = join_properties({"DELAY": "3", "TAGS": "a"}).encode()
    store.put(NewMessage(SCHEDULE_TOPIC, 2, b"x", properties, 1_010_000, 0, 0, 0, bytes(8)))
    store.commit()
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    store = MessageStore(config, ("127.0.0.1", 10911))
    store.open()
    entry = store.queues[SCHEDULE_TOPIC, 2].entry(0)
    store.close()
    assert entry is not None
    assert entry[2] == 1_010_000
