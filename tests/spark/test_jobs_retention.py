"""retention on a log of known days, and a disk that is as large as the test needs."""

from __future__ import annotations

import shutil
from collections import namedtuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.errors import ConfigError
from spark import retention
from spark.cleaning import DAY_MS, HOUR_MS
from spark.result import Ask
from spark.stores import Stores
from tests.spark.making import making

FIRST_DAY_MS = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
FILE = 20_000
PER_HOUR = 5
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days, five messages of about 300 bytes an hour: two files and a part a day."""
    root = tmp_path_factory.mktemp("store")
    with making(root, "a", file_size=FILE) as maker:
        for number in range(3 * 24 * PER_HOUR):
            maker.send("orders", body=bytes(300), at_ms=FIRST_DAY_MS + number * HOUR_MS // PER_HOUR)
    return root


def told(spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, total: int, used: int, **ask: Any) -> Any:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(total, used, total - used))
    result = retention.run(Stores(spark, f"a={root}"), Ask(now_ms=FIRST_DAY_MS + 3 * DAY_MS, **ask))
    rows = [row.asDict() for row in result.frame.collect()]
    return {event: [row for row in rows if row["event"] == event] for event in ("grew", "delete", "disk")}, result


def test_the_timeline(spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events, result = told(spark, root, monkeypatch, total=10_000_000, used=6_000_000)
    files = sorted((root / "commitlog").iterdir())
    per_day = FILE * len(files) / 3
    assert [row["days"] for row in events["grew"]] == [-3, -2, -1]
    assert all(row["bytes"] == pytest.approx(per_day, rel=0.1) for row in events["grew"])
    # The last file is being written. Each other goes at four in the morning, three to four days after the next began.
    assert [row["what"] for row in events["delete"]] == [file.name for file in files[:-1]]
    assert {row["bytes"] for row in events["delete"]} == {FILE}
    assert {row["time"].hour for row in events["delete"]} == {4}
    begun = [FIRST_DAY_MS + DAY_MS * number * FILE / per_day for number in range(1, len(files))]
    for row, written in zip(events["delete"], begun, strict=True):
        expired = (written - FIRST_DAY_MS) / DAY_MS  # in days from now, since files are kept as long as the log is old
        assert expired - 0.1 < row["days"] < expired + 1.1
    # Less than 200 kB come and go; the disk stays as it is.
    assert [(row["disk_used"], row["time"]) for row in events["disk"]] == [(0.75, None), (0.85, None), (0.9, None)]
    assert "60% full and stays below 75%" in result.notes[0]


def test_a_disk_that_fills_up(spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing expires in a month; the disk has room for ten days of growth until it is 75 % full."""
    per_day = FILE * len(list((root / "commitlog").iterdir())) / 3
    total = round(100 * per_day)
    events, _ = told(spark, root, monkeypatch, total=total, used=round(total * 0.75 - 10 * per_day), reserved_h=30 * 24)
    assert [row["days"] for row in events["disk"]] == [pytest.approx(days, rel=0.1) for days in (10, 20, 25)]
    assert [row["what"] for row in events["disk"]] == list(retention.THRESHOLDS.values())


def test_stores_on_one_disk_fill_it_together(
    spark: SparkSession, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the second store lies elsewhere, on the same disk as the first's. Alone each would take ten days."""
    second = tmp_path / "second"
    second.mkdir()
    (second / "commitlog").symlink_to(shutil.copytree(root / "commitlog", tmp_path / "log"))
    per_day = FILE * len(list((root / "commitlog").iterdir())) / 3
    total = round(100 * per_day)
    used = round(total * 0.75 - 10 * per_day)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(total, used, total - used))
    ask = Ask(now_ms=FIRST_DAY_MS + 3 * DAY_MS, reserved_h=30 * 24)
    result = retention.run(Stores(spark, f"a={root};b={second}"), ask)
    disk = [row for row in result.frame.collect() if row["event"] == "disk"]
    assert [(row["store"], row["days"]) for row in disk] == [
        (store, pytest.approx(days, rel=0.1)) for store in "ab" for days in (5, 10, 12.5)
    ]
    assert "its disk (with b on it) is" in result.notes[0]


def test_a_store_with_nothing_in_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    result = retention.run(Stores(spark, f"a={tmp_path}"), Ask(now_ms=FIRST_DAY_MS))
    assert {row.event for row in result.frame.collect()} == {"disk"}
    with pytest.raises(ConfigError, match="not 4am"):
        retention.run(Stores(spark, f"a={tmp_path}"), Ask(delete_when="4am"))
