"""`mqctl analyze` up to the call of spark-submit, and from its answer on; the real one is in tests/spark."""

from __future__ import annotations

import csv
import io
import os
import signal
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from mqctl.cli import load
from mqctl.commands.analyze.answering import Answer
from mqctl.commands.analyze.chart import chart_of
from mqctl.commands.analyze.finding import find_python, find_spark
from mqctl.commands.analyze.jobfiles import MAIN, job_files, write_zip
from mqctl.commands.analyze.picture import draw_bars, page
from mqctl.commands.analyze.showing import columns_of
from mqctl.commands.analyze.svg import LEFT, RIGHT, WIDTH
from mqctl.exit import ExitCode
from mqctl.times import time_text
from spark.request import Request, staging_name
from tests.cli.running import Cli, Ended, python
from tests.cli.sparkless import Machine, machine, script
from tests.cli.terminal import Terminal

HOUR_MS = 3_600_000
NOON_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS

DONE = {"event": "done", "status": 0}
TRAFFIC: list[dict[str, Any]] = [
    {"event": "progress", "done": 1, "total": 4},
    {
        "event": "result",
        "title": "Messages stored",
        "columns": [["time", "timestamp"], ["topic", "string"], ["per_second", "double"]],
        "plot": {"kind": "lines", "x": "time", "y": "per_second", "series": "topic", "title": "Messages per second"},
    },
    {"event": "row", "values": [NOON_MS, "orders", 1.0]},
    {"event": "row", "values": [NOON_MS, "pay<ments>", 123.456]},
    {"event": "row", "values": [NOON_MS + HOUR_MS, "orders", 8.0]},
    {"event": "note", "text": "a clock was wrong"},
    DONE,
]


@pytest.fixture
def spark(tmp_path: Path) -> Machine:
    return machine(tmp_path / "machine")


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return str(tmp_path / "store")


def failed(ended: Ended, status: ExitCode, *texts: str) -> None:
    """One line, perhaps with a hint, and nothing on stdout."""
    lines = ended.err.splitlines()
    assert (ended.status, ended.out, lines[0][:7]) == (status, "", "error: "), ended
    assert [line[:6] for line in lines[1:]] in ([], ["hint: "])
    assert [text for text in texts if text not in ended.err] == []


# -- what is missing ------------------------------------------------------------------------------------


def test_no_spark(spark: Machine, store: str) -> None:
    (spark.home / "bin" / "spark-submit").unlink()
    ended = spark.cli("analyze", "lag", "--store", store)
    failed(ended, ExitCode.NOT_FOUND, "no Spark", "pip install 'mqctl[analyze]'", "SPARK_HOME")


def test_old_spark(spark: Machine, store: str) -> None:
    spark.has_spark("3.5.1")
    failed(spark.cli("analyze", "lag", "--store", store), ExitCode.USAGE, "Spark 3.5", "mqctl[analyze]")


def test_no_java(spark: Machine, store: str) -> None:
    (spark.root / "bin" / "java").unlink()
    failed(spark.cli("analyze", "lag", "--store", store), ExitCode.NOT_FOUND, "no Java", "17", "JAVA_HOME")
    elsewhere = Cli({**spark.variables, "JAVA_HOME": "/nowhere"})
    failed(elsewhere("analyze", "lag", "--store", store), ExitCode.NOT_FOUND, "/nowhere/bin/java")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_old_java(spark: Machine, store: str, version: str) -> None:
    spark.has_java(version)
    name = version.removeprefix("1.").partition(".")[0]
    failed(spark.cli("analyze", "lag", "--store", store), ExitCode.USAGE, f"is Java {name};", "17 or later")


def test_spark_is_found_in_this_order(spark: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    spark.has_java("21")
    ours = {name: value for name, value in spark.variables.items() if name != "PYSPARK_PYTHON"}
    assert find_spark(ours).home == Path(pyspark.__file__).parent
    assert find_spark(spark.variables).home == spark.home
    (spark.root / "bin" / "spark-submit").symlink_to(spark.home / "bin" / "spark-submit")
    on_path = {name: value for name, value in spark.variables.items() if name != "SPARK_HOME"}
    assert find_spark(on_path).home == spark.home


def test_a_program_of_one_file_takes_the_python_of_the_path(spark: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"PATH": str(spark.root / "bin")}
    assert find_python(variables) == sys.executable
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert find_python(variables) == str(spark.root / "bin" / "python3")
    ended = Cli({"PATH": "/nowhere"})("analyze", "lag", "--store", str(spark.root))
    failed(ended, ExitCode.NOT_FOUND, "no python3", "PYSPARK_PYTHON")


# -- what is wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (["--master", "moon"], ExitCode.USAGE, "'moon' is no Spark master"),
        (["--master", "spark://127.0.0.1"], ExitCode.USAGE, "names no port"),
        (["--master", "spark://127.0.0.1:1"], ExitCode.UNREACHABLE, "no Spark master answers at spark://127.0.0.1:1"),
        (["--conf", "loud"], ExitCode.USAGE, "name=value"),
        (["-o", "parquet"], ExitCode.USAGE, "--out"),
        (["-o", "yaml", "--out", "new"], ExitCode.USAGE, "parquet|json|csv"),
        (["--out", "."], ExitCode.USAGE, "exists already"),
        (["--plot", "lag.gif"], ExitCode.USAGE, "FILE.html or FILE.png"),
        (["--plot", "/nowhere/lag.html"], ExitCode.USAGE, "no folder /nowhere"),
        (["--deploy-mode", "cluster", "--master", "yarn"], ExitCode.USAGE, "--out"),
        (["--deploy-mode", "cluster", "--master", "yarn", "--out", "x", "--plot", "a.html"], ExitCode.USAGE, "--plot"),
        (["--store", "/nowhere"], ExitCode.NOT_FOUND, "/nowhere: there is no such folder"),
        (["--store", f"a={__file__}"], ExitCode.NOT_FOUND, "is no folder"),
        (["--store", "a="], ExitCode.USAGE, "names no folder"),
        (["--store", "/a;/b"], ExitCode.USAGE, "once for each"),
    ],
)
def test_wrong_options(spark: Machine, store: str, args: list[str], status: ExitCode, text: str) -> None:
    failed(spark.cli("analyze", "lag", "--store", store, *args), status, text)
    assert not (spark.home / "called").exists()


@pytest.mark.skipif("matplotlib" in sys.modules, reason="there is one")
def test_png_needs_matplotlib(spark: Machine, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = spark.cli("analyze", "lag", "--store", store, "--plot", "lag.png")
    failed(ended, ExitCode.USAGE, "PNG needs matplotlib", "FILE.html")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(spark: Machine, store: str) -> None:
    Path(store).chmod(0)
    try:
        failed(spark.cli("analyze", "lag", "--store", store), ExitCode.NO_PERMISSION, "permission denied")
    finally:
        Path(store).chmod(0o755)


@pytest.mark.parametrize("command", ["lag", "export"])
def test_a_target_that_cannot_be_written(
    spark: Machine, store: str, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before anything is started. Root may write everything, so it is the system that is told to refuse."""
    (tmp_path / "file").touch()
    ended = spark.cli("analyze", command, "--store", store, "--out", str(tmp_path / "file" / "new" / "out"))
    failed(ended, ExitCode.USAGE, f"{tmp_path / 'file'} cannot be written to: Not a directory")

    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    ended = spark.cli("analyze", command, "--store", store, "--out", str(tmp_path / "new" / "out"))
    failed(ended, ExitCode.NO_PERMISSION, f"{tmp_path}: permission denied")
    assert not (spark.home / "called").exists()


def test_bad_job_options(spark: Machine, store: str) -> None:
    for args in (["--bucket", "soon"], ["--bucket", "0s"], ["--from", "yesterday"], ["--top", "0"]):
        ended = spark.cli("analyze", "traffic", "--store", store, *args)
        assert (ended.status, ended.out) == (ExitCode.USAGE, "")
        assert args[0] in ended.err


@pytest.mark.parametrize("args", [[""], ["SELECT 1", "--file", "x"], ["--file", "/nowhere.sql"]])
def test_no_query(spark: Machine, store: str, args: list[str]) -> None:
    assert spark.cli("analyze", "sql", *args, "--store", store).status == ExitCode.USAGE


def test_a_query_from_a_file_or_standard_input(spark: Machine, store: str, tmp_path: Path) -> None:
    spark.says(DONE)
    query = "SELECT 'ü'; -- one\nSELECT 2\n"
    (tmp_path / "report.sql").write_text(query)
    for args, stdin in ((["--file", str(tmp_path / "report.sql")], b""), ([], query.encode())):
        spark.cli.ok("analyze", "sql", *args, "--store", store, stdin=stdin)
        assert Request.decode(spark.called[-1]).ask.query == query


def test_spark_that_dies(spark: Machine, store: str, tmp_path: Path) -> None:
    spark.says(None)
    ended = spark.cli("analyze", "lag", "--store", store, "--out", str(tmp_path / "out"))
    failed(ended, ExitCode.REFUSED, "noise of Spark", "hint: what Spark said is in ")
    log = Path(ended.err.split()[-1])
    assert "noise of Spark" in log.read_text()
    log.unlink()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("expected", "hint"), [(True, "look there"), (False, "what Spark said is in ")])
def test_an_error_of_the_driver(spark: Machine, store: str, expected: bool, hint: str) -> None:
    error = {"message": "no such topic", "hint": "look there", "status": 3, "expected": expected}
    spark.says(TRAFFIC[0], {"event": "error", **error})
    ended = spark.cli("analyze", "traffic", "--store", store)
    failed(ended, ExitCode.NOT_FOUND, "error: no such topic", hint)
    if not expected:
        Path(ended.err.split()[-1]).unlink()


def test_what_a_killed_driver_left_is_cleared(spark: Machine, store: str, tmp_path: Path) -> None:
    """The name of what is half written is the run's: nothing else beside it is touched."""
    spark.says(None)
    other = Path(staging_name(str(tmp_path / "out"), "12345678"))
    other.mkdir()
    ended = spark.cli("analyze", "lag", "--store", store, "--out", str(tmp_path / "out"))
    Path(ended.err.split()[-1]).unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "machine", "store"]


# -- how Spark is called --------------------------------------------------------------------------------


def test_the_call(spark: Machine, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spark.says(DONE)
    arguments = [
        "--store",
        "a=store",
        "--store",
        "s3://bucket/x=y",
        "--conf",
        "spark.ui.enabled=true",
        "--py-files",
        "a.zip",
    ]
    spark.cli.ok("analyze", "keys", "o-1", *arguments, "-t", "t1", "-t", "t2", "--from", "1790000000000", clock=5.0)
    call = spark.called
    options = dict(zip(call[:-2:2], call[1:-2:2], strict=True))
    assert options["--master"] == "local[*]"
    assert options["--py-files"].endswith(f"jobs.zip,{tmp_path}/a.zip")
    confs = [value for name, value in zip(call[:-2:2], call[1:-2:2], strict=True) if name == "--conf"]
    assert "spark.ui.enabled=true" in confs
    assert "spark.ui.enabled=false" not in confs
    request = Request.decode(call[-1])
    assert (request.job, request.stores) == ("keys", f"a={store};s3://bucket/x=y")
    assert (request.ask.key, request.ask.topic, request.ask.since_ms) == ("o-1", ("t1", "t2"), 1_790_000_000_000)
    assert request.ask.now_ms == 5000
    assert not Path(call[-2]).exists()  # nothing is left behind


def test_every_job_is_called_by_its_name(spark: Machine, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tempfile, "tempdir", str(spark.root)
    )  # for the logs of a Spark that only looks at its last word
    script(
        spark.home / "bin" / "spark-submit",
        f"#!/bin/sh\nshift $(($# - 1))\nprintf '[\"%s\"]' $1 >{spark.home}/called\n",
    )
    more = {"sql": ["SELECT 1"], "trace": ["k"], "diff": [store, store], "export": ["--out", f"{store}/out"]}
    files = job_files()
    for job in load("analyze").commands:
        spark.cli("analyze", job, *more.get(job, []), *([] if job == "diff" else ["--store", store]))
        assert Request.decode(spark.called[-1]).job == job
        assert b"\ndef run(stores: Stores, ask: Ask) -> Result:\n" in files[f"spark/{job}.py"]


def test_a_driver_in_the_cluster_is_only_waited_for(spark: Machine, store: str, tmp_path: Path) -> None:
    spark.says(DONE)
    cluster = ["--master", "yarn", "--deploy-mode", "cluster", "--out", "hdfs://name/out", "-o", "csv"]
    ended = spark.cli.ok("analyze", "lag", "--store", "hdfs://name/store", *cluster)
    assert ended.err == "written to hdfs://name/out\n"
    request = Request.decode(spark.called[-1])
    assert (request.socket, request.format, request.out) == ("", "csv", "hdfs://name/out")


def test_a_request_survives_its_way() -> None:
    from spark.result import Ask

    request = Request("sql", "a=/x y", Ask(query="SELECT '}}{{ $HOME'\n-- ü", topic=("a", "b")), prompt=True)
    assert Request.decode(request.encode()) == request
    assert request.encode().replace("=", "").replace("-", "").replace("_", "").isalnum()


def test_the_zip_holds_all_that_is_imported(tmp_path: Path) -> None:
    """With numpy, pyarrow and pyspark, and nothing else of ours."""
    files = job_files()
    assert MAIN in files
    write_zip(tmp_path / "jobs.zip", files)
    names = zipfile.ZipFile(tmp_path / "jobs.zip").namelist()
    modules = sorted(name.removesuffix(".py").replace("/", ".") for name in names if not name.endswith("__init__.py"))
    code = """
import importlib, sys
archive, *modules = sys.argv[1:]
sys.path.insert(0, archive)
for name in ("msgspec", "typer", "rich", "lark", "psutil", "msgpack", "yaml", "uvloop"):
    sys.modules[name] = None
for name in modules:
    module = importlib.import_module(name)
    assert module.__file__.startswith(archive), module.__file__
print(len(modules))
"""
    assert python(code, str(tmp_path / "jobs.zip"), *modules, cwd=tmp_path) == [str(len(modules))]


# -- the answer -----------------------------------------------------------------------------------------


def test_a_table(spark: Machine, store: str) -> None:
    spark.says(*TRAFFIC)
    ended = spark.cli.ok("analyze", "traffic", "--store", store)
    lines = ended.out.splitlines()
    assert lines[0].split() == ["TIME", "TOPIC", "PER", "SECOND"]
    assert [line.split()[2:] for line in lines[1:]] == [["orders", "1.0"], ["pay<ments>", "123.5"], ["orders", "8.0"]]
    assert ended.err == "note: a clock was wrong\n"


def test_a_sparkline_on_a_terminal(spark: Machine, store: str) -> None:
    spark.says(*TRAFFIC)
    lines = spark.cli.ok("analyze", "traffic", "--store", store, terminal=True).out.splitlines()
    assert lines[-3:] == ["per_second by time", "  pay<ments>  █  max 123.5", "  orders      ▂█  max 8"]


def test_for_programs(spark: Machine, store: str) -> None:
    spark.says(*TRAFFIC)
    rows = spark.cli.ok("-o", "json", "analyze", "traffic", "--store", store).json
    assert rows[1] == {"time": "2026-09-21T14:00:00.000Z", "topic": "pay<ments>", "per_second": 123.456}
    text = spark.cli.ok("analyze", "traffic", "--store", store, "-o", "csv").out
    assert list(csv.reader(io.StringIO(text)))[2] == ["2026-09-21T14:00:00.000Z", "pay<ments>", "123.456"]


def test_a_report(spark: Machine, store: str, tmp_path: Path) -> None:
    spark.says(*TRAFFIC)
    page = tmp_path / "traffic.html"
    ended = spark.cli.ok("analyze", "traffic", "--store", store, "--plot", str(page))
    assert f"drawn in {page}" in ended.err
    text = page.read_text()
    drawing = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    lines = drawing.findall("{*}polyline")
    assert {line.findtext("{*}title") for line in lines} == {"orders", "pay<ments>"}
    assert sorted(len(line.attrib["points"].split()) for line in lines) == [1, 2]
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # it stands for itself
    assert "pay<ments>" not in text
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_bars(spark: Machine, store: str, tmp_path: Path) -> None:
    columns = [["topic", "string"], ["group", "string"], ["lag", "bigint"]]
    plot = {"kind": "bars", "x": "topic", "y": "lag", "series": "group", "title": "Lag"}
    rows = [["t1", "g", 5], ["t1", "g", 2], ["t2", None, 0], ["t3", "g", None]]
    result = {"event": "result", "title": "", "columns": columns, "plot": plot}
    spark.says(result, *({"event": "row", "values": row} for row in rows), DONE)
    spark.cli.ok("analyze", "lag", "--store", store, "--plot", str(tmp_path / "lag.html"))
    text = (tmp_path / "lag.html").read_text()
    drawing = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    assert [bar.findtext("{*}title") for bar in drawing.findall("{*}rect")] == ["g t1 7", "- t2 0"]


LATENCY = Answer(
    columns=[("topic", "string"), ("stage", "string"), ("p99", "bigint")],
    rows=[
        {"topic": "orders", "stage": "born to stored", "p99": 7},
        {"topic": "bills", "stage": "born to stored", "p99": 3},
        {"topic": "bills", "stage": "end to end", "p99": 40},
    ],
    plot={"kind": "bars", "x": "topic", "y": "p99", "series": "stage", "title": "99 of 100, ms"},
)
RETENTION = Answer(
    columns=[("time", "timestamp"), ("event", "string"), ("bytes", "bigint")],
    rows=[
        {"time": NOON_MS + HOUR_MS, "event": "delete", "bytes": 9},
        {"time": NOON_MS + 2 * HOUR_MS, "event": "delete", "bytes": 8},
        {"time": NOON_MS, "event": "grew", "bytes": 1},
        {"time": NOON_MS + HOUR_MS, "event": "grew", "bytes": 2},
        {"time": None, "event": "disk", "bytes": None},
    ],
    plot={"kind": "bars", "x": "time", "y": "bytes", "series": "event", "title": "Bytes"},
)


@pytest.mark.parametrize(
    ("answer", "labels", "groups"),
    [
        (LATENCY, ["bills", "orders"], {"40": 0, "3": 0, "7": 1}),
        (RETENTION, [time_text(NOON_MS + hour * HOUR_MS)[:16] for hour in range(3)], {"9": 1, "8": 2, "1": 0, "2": 1}),
    ],
    ids=["latency", "retention"],
)
def test_groups_of_bars(answer: Answer, labels: list[str], groups: dict[str, int]) -> None:
    """Those over time are in its order, whatever series comes first; no two bars are at one place."""
    chart = chart_of(answer)
    assert chart is not None
    text = page(chart, answer, columns_of(answer))
    drawing = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    assert [group.findtext("{*}title") for group in drawing.findall("{*}g")] == labels
    width = (WIDTH - LEFT - RIGHT) / len(labels)
    lefts = {str(bar.findtext("{*}title")).split()[-1]: float(bar.attrib["x"]) for bar in drawing.findall("{*}rect")}
    assert {height: int((left - LEFT) / width) for height, left in lefts.items()} == groups
    assert len(set(lefts.values())) == len(lefts)


class Axes:
    """What is drawn with matplotlib: left edges and widths of bars, and the labels below."""

    def __init__(self) -> None:
        self.bars: list[tuple[float, float]] = []
        self.labels: list[tuple[float, str]] = []

    def bar(self, places: list[float], heights: list[float], width: float, label: str | None) -> None:
        self.bars += [(place - width / 2, width) for place in places]

    def set_xticks(self, places: list[float], labels: list[str]) -> None:
        self.labels = list(zip(places, labels, strict=True))


def test_bars_of_a_png_stand_beside_each_other() -> None:
    axes = Axes()
    chart = chart_of(RETENTION)
    assert chart is not None
    draw_bars(axes, chart)
    assert [label for _, label in axes.labels] == [chart.x_text(NOON_MS + hour * HOUR_MS) for hour in range(3)]
    bars = sorted(axes.bars)
    assert all(left + width <= right + 1e-9 for (left, width), (right, _) in pairwise(bars))
    assert [round(left) for left, _ in bars] == [0, 1, 1, 2]


def test_nothing_to_draw(spark: Machine, store: str, tmp_path: Path) -> None:
    spark.says(TRAFFIC[1], DONE)
    ended = spark.cli.ok("analyze", "traffic", "--store", store, "--plot", str(tmp_path / "a.html"), terminal=True)
    assert "nothing to draw" in ended.err
    assert not (tmp_path / "a.html").exists()


def test_a_prompt(spark: Machine, store: str, tmp_path: Path) -> None:
    spark.says(*TRAFFIC[1:3], DONE)
    terminal = Terminal("analyze", "sql", "--store", store, home=tmp_path, variables=spark.variables)
    try:
        terminal.wait_for("sql> ")
        terminal.press(b"SELECT\n")
        terminal.wait_for("...> ")
        terminal.interrupt("sql> ")  # what was begun is dropped, and Spark goes on
        terminal.press(b"SELECT 1\nFROM x;\n")
        terminal.wait_for("sql> ")
        assert "note: SELECT 1\r\nFROM x;" in terminal.text()
        assert "orders" in terminal.text()
        terminal.press(b"\x04")
        assert terminal.end() == ExitCode.DONE
    finally:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_spark(spark: Machine, store: str, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, or what a program is ended with by others: nothing goes on running, nothing is left behind."""
    os.mkfifo(spark.home / "started")
    script(spark.home / "bin" / "spark-submit", f"#!/bin/sh\necho $$ >{spark.home}/started\nexec /bin/sleep 600\n")
    terminal = Terminal(
        "analyze", "lag", "--store", store, home=tmp_path, variables={**spark.variables, "TMPDIR": str(tmp_path)}
    )
    try:
        process_id = int((spark.home / "started").read_text())
        if number == signal.SIGINT:
            terminal.press(b"\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.end() == 128 + number
    finally:
        terminal.close()
    assert not psutil.pid_exists(process_id)
    assert list(tmp_path.glob("mqctl-analyze-*")) == []


def test_damage_sets_the_exit_status(spark: Machine, store: str) -> None:
    spark.says(TRAFFIC[1], TRAFFIC[2], {"event": "done", "status": 1})
    ended = spark.cli("analyze", "check", "--store", store)
    assert (ended.status, len(ended.out.splitlines())) == (ExitCode.REFUSED, 2)
