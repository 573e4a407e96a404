"""Delay levels and what recovery makes of delayed messages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.store.properties import join_properties
from mqctl.store.schedule import DEFAULT_LEVELS, DEFAULT_LEVELS_MS, RECALL_GRACE_MS, is_time, parse_levels, waiting_code
from mqctl.store.store import MessageStore, NewMessage, StoreConfig


def test_the_default_levels() -> None:
    levels = parse_levels(DEFAULT_LEVELS)
    assert (len(levels), levels[0], levels[2], levels[17]) == (18, 1000, 10_000, 7_200_000)


def test_all_units() -> None:
    assert parse_levels("0s 3s  2m 1h 1d") == (0, 3000, 120_000, 3_600_000, 86_400_000)


@pytest.mark.parametrize("text", ["1x", "s", "1s five", "", " ", "-1s", "1 s", "1.5s", "10"])
def test_what_is_no_level(text: str) -> None:
    with pytest.raises(ValueError):
        parse_levels(text)


@pytest.mark.parametrize(
    ("level", "due"),
    [("1", 1000), ("3", 10_000), ("+2", 5000), ("18", 7_200_000), ("99", 7_200_000), ("0", None), ("-1", None),
     ("x", None), ("3000000000", None), ("1_0", None), (" 1", None)],
)  # fmt: skip
def test_when_a_message_with_a_level_is_due(level: str, due: int | None) -> None:
    found = waiting_code(SCHEDULE_TOPIC, join_properties({"DELAY": level}), 5_000_000, DEFAULT_LEVELS_MS)
    assert found == (None if due is None else 5_000_000 + due)


def test_the_highest_level_is_the_configured_one() -> None:
    assert waiting_code(SCHEDULE_TOPIC, join_properties({"DELAY": "5"}), 100, (1000, 2000)) == 2100


@pytest.mark.parametrize(
    ("properties", "due"),
    [
        ({"TIMER_OUT_MS": "1700000000123"}, 1_700_000_000_123),
        # Apache's 5.x broker rounds the time down.
        ({"TIMER_OUT_MS": "1700000000000", "TIMER_DELIVER_MS": "1700000000777"}, 1_700_000_000_777),
        ({"TIMER_OUT_MS": "1700000000000", "TIMER_DELAY_SEC": "3"}, 1_700_000_001_500),
        ({"TIMER_OUT_MS": "1700000000000", "TIMER_DELAY_MS": "2000"}, 1_700_000_000_500),
        # Stored anew, so the delay does not count from the store time.
        ({"TIMER_OUT_MS": "1700000000000", "TIMER_DELAY_SEC": "3", "TIMER_ROLL_TIMES": "1"}, 1_700_000_000_000),
        ({"TIMER_DELIVER_MS": "1700000000777"}, None),
        ({"TIMER_OUT_MS": "soon"}, None),
        ({}, None),
    ],
)
def test_when_a_message_with_a_time_is_due(properties: dict[str, str], due: int | None) -> None:
    assert waiting_code(TIMER_TOPIC, join_properties(properties), 1_699_999_998_500, DEFAULT_LEVELS_MS) == due


def test_what_takes_a_message_back_has_a_negative_time() -> None:
    properties = join_properties({"TIMER_OUT_MS": "1700000000123", "TIMER_DEL_UNIQKEY": "t+key"})
    found = waiting_code(TIMER_TOPIC, properties, 5, DEFAULT_LEVELS_MS)
    assert found == -(1_700_000_000_123 + RECALL_GRACE_MS)
    assert is_time(found)
    assert not is_time(-(1 << 31))
    assert not is_time((1 << 31) - 1)


def test_other_topics_have_no_times() -> None:
    properties = join_properties({"DELAY": "1", "TIMER_OUT_MS": "1700000000123"})
    assert waiting_code("t", properties, 5, DEFAULT_LEVELS_MS) is None


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
