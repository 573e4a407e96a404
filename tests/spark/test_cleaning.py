"""What cleaning will do, on logs whose future can be worked out by hand."""

from __future__ import annotations

import time

import pytest

from spark.cleaning import DAY_MS, HOUR_MS, Disk, Log, LogFile, Rules, forecast

GIB = 1 << 30
# Midnight of some day, here.
MIDNIGHT_MS = int(time.mktime((2026, 1, 15, 0, 0, 0, 0, 0, -1))) * 1000
RULES = Rules(reserved_h=72, hours=frozenset({4}))


def full(*written_hours_ago: float) -> list[LogFile]:
    return [
        LogFile(f"{number:020d}", GIB, MIDNIGHT_MS - round(hours * HOUR_MS))
        for number, hours in enumerate(written_hours_ago)
    ]


def test_a_file_goes_at_the_next_hour_of_deleting_after_it_expired() -> None:
    """Expired yesterday; expires at one, at five, and in two days at noon."""
    files = full(96, 71, 67, 12)
    (found,) = forecast(RULES, [Log(files, 0, GIB, 0.0)], None, MIDNIGHT_MS)
    assert [each.file for each in found.deleted] == files
    assert [(each.at_ms - MIDNIGHT_MS) / HOUR_MS for each in found.deleted] == [4, 4, 28, 76]
    assert [each.log_bytes for each in found.deleted] == [3 * GIB, 2 * GIB, GIB, 0]


def test_expired_files_go_at_any_hour_when_the_disk_is_too_full() -> None:
    (found,) = forecast(RULES, [Log(full(96, 71, 12), 0, GIB, 0.0)], Disk(100 * GIB, 77 * GIB), MIDNIGHT_MS)
    assert [(each.at_ms - MIDNIGHT_MS) / HOUR_MS for each in found.deleted] == [0, 1, 60 + 16]
    assert found.reached == {0.75: MIDNIGHT_MS}


def test_a_log_levels_off_when_as_much_is_deleted_as_comes() -> None:
    """A GiB an hour is kept for three days, and for up to one more until the hour of deleting."""
    (found,) = forecast(RULES, [Log([], 0, GIB, GIB)], Disk(200 * GIB, 0), MIDNIGHT_MS)
    assert found.reached == {}
    assert found.most_log_bytes == pytest.approx(96 * GIB, abs=2 * GIB)


@pytest.mark.parametrize(("total", "days"), [(1000, {0.75: 3.125, 0.85: None, 0.9: None}), (60, {0.75: 0.1875})])
def test_days_until_the_disk_is_full(total: int, days: dict[float, float | None]) -> None:
    """Ten GiB an hour; of the large disk 75 % are never passed by much, since from there expired files go at once."""
    (found,) = forecast(RULES, [Log([], 0, GIB, 10 * GIB)], Disk(total * GIB, 0), MIDNIGHT_MS)
    for threshold, expected in days.items():
        at = found.reached.get(threshold)
        assert (at is None) == (expected is None), threshold
        if at is not None and expected is not None:
            assert (at - MIDNIGHT_MS) / DAY_MS == pytest.approx(expected, abs=1 / 24)
    assert list(found.reached.values()) == sorted(found.reached.values())


def test_the_file_being_written_stays() -> None:
    (found,) = forecast(RULES, [Log([], GIB // 2, GIB, 0.0)], None, MIDNIGHT_MS)
    assert found.deleted == []
    assert found.most_log_bytes == GIB // 2


def test_logs_that_share_a_disk_fill_it_together() -> None:
    """Two GiB an hour and one: 75 GiB of the 100 are full after a day and an hour."""
    logs = [Log([], 0, GIB, 2 * GIB), Log(full(12), 0, GIB, GIB)]
    both = forecast(RULES, logs, Disk(100 * GIB, GIB), MIDNIGHT_MS)
    assert [(found.reached[0.75] - MIDNIGHT_MS) / HOUR_MS for found in both] == [25, 25]
    assert [[each.log_bytes >= GIB for each in found.deleted] for found in both] == [[], [True]]
