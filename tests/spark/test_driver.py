"""The driver's side of an answer, with the session that the other tests have: rows, files, errors in one line."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from mqctl.errors import ConfigError, StoreError
from mqctl.exit import ExitCode
from spark import driver
from spark.failures import failure_of
from spark.plain import rows
from spark.request import Request
from spark.result import Ask
from spark.stores import Stores
from spark.writing import write
from tests.spark.making import Sent, making, write_config

pytestmark = pytest.mark.interop  # it needs Java

VALUES = """
SELECT timestamp_millis(1760000400123) AS time, map('a', 1) AS pairs, array(1, 2) AS list,
       named_struct('x', 1Y) AS pair, X'68ff' AS bytes, 1.50BD AS exact, 2BD AS whole,
       DATE'2026-11-18' AS day, CAST(NULL AS STRING) AS nothing, 'a b' AS `odd ``name`
"""


class Heard:
    """A channel that remembers."""

    def __init__(self, *asked: str) -> None:
        self.asked = asked
        self.events: list[dict[str, Any]] = []

    def send(self, event: str, **members: Any) -> None:
        self.events.append({"event": event, **members})

    def queries(self) -> tuple[str, ...]:
        return self.asked

    def of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Sent]]:
    root = tmp_path_factory.mktemp("driver")
    with making(root, "a") as maker:
        for number in range(10):
            maker.send("orders", number % 2, b"%d" % number, keys=f"k{number}")
    write_config(root, topics={"orders": 2, "empty": 1})
    return f"a={root}", maker.sent


def answered(spark: SparkSession, request: Request) -> tuple[int, Heard]:
    heard = Heard()
    status = driver.answer(request, request.ask, Stores(spark, request.stores), heard)  # type: ignore[arg-type]
    return status, heard


def asking(store: tuple[str, list[Sent]], query: str, **members: Any) -> Request:
    return Request("sql", store[0], Ask(query=query), **members)


def test_rows(spark: SparkSession, store: tuple[str, list[Sent]]) -> None:
    status, heard = answered(spark, asking(store, "SELECT topic, queue_id, keys FROM messages ORDER BY phys_offset"))
    assert status == 0
    assert heard.of("result")[0]["columns"] == [("topic", "string"), ("queue_id", "int"), ("keys", "string")]
    assert [row["values"] for row in heard.of("row")] == [[each.topic, each.queue_id, each.keys] for each in store[1]]
    assert heard.events[-1] == {"event": "done", "status": 0}


def test_a_long_listing_is_cut(spark: SparkSession, store: tuple[str, list[Sent]]) -> None:
    _, heard = answered(spark, asking(store, "SELECT keys FROM messages ORDER BY keys", max_rows=3))
    assert [row["values"] for row in heard.of("row")] == [["k0"], ["k1"], ["k2"]]
    assert "first 3 rows" in heard.of("note")[0]["text"]


def test_a_prompt_goes_on_after_an_error(
    spark: SparkSession, store: tuple[str, list[Sent]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)  # others need it
    heard = Heard("SELECT nonsense FROM messages", "SELECT count(*) FROM messages")
    assert driver.serve(asking(store, "", prompt=True), heard) == 0  # type: ignore[arg-type]
    kinds = [each["event"] for each in heard.events if each["event"] != "progress"]
    assert kinds == ["done", "error", "result", "row", "done"]
    assert heard.of("row")[0]["values"] == [10]


def test_values_for_json(spark: SparkSession) -> None:
    found = next(rows(spark.sql(VALUES)))
    assert found == [
        1_760_000_400_123,
        {"a": 1},
        [1, 2],
        {"x": 1},
        "h\\xff",
        1.5,
        2,
        "2026-11-18",
        None,
        "a b",
    ]
    json.dumps(found)


# -- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_files(spark: SparkSession, tmp_path: Path, format: str) -> None:
    write(spark.sql(VALUES), format, str(tmp_path / "out"), "run")
    (part,) = (tmp_path / "out").glob("part-*")
    if format == "parquet":
        (row,) = pyarrow.parquet.read_table(part).to_pylist()
        assert (row["bytes"], row["odd `name"]) == (b"h\xff", "a b")
    elif format == "json":
        row = json.loads(part.read_text())
        assert (row["time"], row["nothing"], row["pairs"]) == ("2025-10-09T09:00:00.123Z", None, {"a": 1})
    else:
        head, line = csv.reader(part.read_text(errors="replace").splitlines(), escapechar="\\", doublequote=False)
        assert (head[0], line[:3]) == ("time", ["2025-10-09T09:00:00.123Z", '{"a":1}', "[1,2]"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_in_use_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(ConfigError, match="exists already"):
        write(spark.range(1).toDF("id"), "csv", str(tmp_path), "run")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    empty = tmp_path.with_name("empty")
    empty.mkdir()
    write(spark.range(1).toDF("id"), "csv", str(empty), "run")
    assert list(empty.glob("part-*"))


def test_a_failure_leaves_nothing(spark: SparkSession, store: tuple[str, list[Sent]], tmp_path: Path) -> None:
    """It fails in a task that has written already: in the only one, since others that are cancelled go on for a moment,
    and only the command, when Spark has ended, can clear what they still leave."""
    query = "SELECT /*+ COALESCE(1) */ IF(keys = 'k9', raise_error('broken'), keys) AS keys FROM messages"
    request = asking(store, query, out=str(tmp_path / "out"), format="json", run="run")
    status, heard = answered(spark, request)
    assert status == ExitCode.REFUSED
    assert "broken" in heard.of("error")[0]["message"]
    assert heard.of("result") == []
    assert list(tmp_path.iterdir()) == []


# -- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELEC 1", "Syntax error at or near 'SELEC'"),
        ("SELECT nonsense FROM messages", "`nonsense` cannot be resolved"),
        ("SELECT * FROM nowhere", "`nowhere` cannot be found"),
        ("SELECT no_such(1)", "`no_such`"),
        ("", "no query"),
    ],
)
def test_sql_errors(spark: SparkSession, store: tuple[str, list[Sent]], query: str, text: str) -> None:
    status, heard = answered(spark, asking(store, query))
    (error,) = heard.of("error")
    assert (status, error["status"], error["expected"]) == (ExitCode.USAGE, ExitCode.USAGE, True)
    assert text in error["message"]
    assert "\n" not in error["message"]
    assert "SQLSTATE" not in error["message"]


def test_not_a_store(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    request = Request("lag", str(tmp_path), Ask())
    assert driver.serve(request, heard) == ExitCode.NOT_FOUND  # type: ignore[arg-type]
    (error,) = heard.events
    assert str(tmp_path) in error["message"]
    assert error["expected"]


def test_errors_of_workers_are_told_in_their_words(spark: SparkSession, store: tuple[str, list[Sent]]) -> None:
    def fails(numbers: Any) -> Any:
        raise StoreError("/data/log: cut off")

    def denied(numbers: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/data/log")

    def surprised(numbers: Any) -> Any:
        raise KeyError("x")

    found = []
    for function in (fails, denied, surprised):
        try:
            spark.sparkContext.parallelize([1], 1).mapPartitions(function).collect()
        except Exception as error:
            found.append(failure_of(error))
    told, denied_told, unexpected = found
    assert (told.message, told.status, told.expected) == ("/data/log: cut off", ExitCode.REFUSED, True)
    assert (denied_told.message, denied_told.status) == ("/data/log: permission denied", ExitCode.NO_PERMISSION)
    assert "KeyError: 'x'" in unexpected.message
    assert not unexpected.expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(spark: SparkSession, store: tuple[str, list[Sent]]) -> None:
    log = Path(store[0].partition("=")[2]) / "commitlog"
    log.chmod(0)
    try:
        status, heard = answered(spark, replace(asking(store, "SELECT * FROM messages")))
        assert (status, heard.of("error")[0]["expected"]) == (ExitCode.NO_PERMISSION, True)
    finally:
        log.chmod(0o755)
