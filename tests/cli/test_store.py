"""`mqctl store` on folders: no servers, and nothing in the folder ever changes."""

from __future__ import annotations

import base64
import csv
import io
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mqctl.commands.common import Session
from mqctl.commands.store.shared import Progress
from mqctl.env import Environment
from mqctl.exit import ExitCode
from mqctl.store.offline.folder import StoreFolder
from tests.cli.running import Cli, Stream
from tests.unit.store.stores import Clock, message, new_store, numbered, opened, put_all

NOW = 1_700_000_000_000
UNIQUE = "7F0000010000000000000000000000FF"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """orders: three text messages in queue 0, one compressed in 1; blobs: bytes that are no text."""
    clock = Clock(NOW)
    text = f"KEYS\x01k1 k2\x02UNIQ_KEY\x01{UNIQUE}\x02region\x01eu".encode()
    with opened(tmp_path / "store", clock) as store:
        put_all(store, numbered(3, topic="orders", tags="paid"))
        put_all(store, [message(zlib.compress(b"grand total"), topic="orders", queue_id=1, sys_flag=1)])
        clock.now_ms = NOW + 60_000
        put_all(store, [message(b"\xff\x00", topic="blobs", properties=text)])
    (tmp_path / "store" / "config").mkdir()
    (tmp_path / "store" / "config" / "delayOffset.json").write_text('{"offsetTable":{1:1}}')
    return tmp_path / "store"


def break_first_record(root: Path) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(4)
        file.write(b"\0")


# -- info, ls, du ---------------------------------------------------------------------------------------


def test_info(offline: Cli, root: Path) -> None:
    found = offline.ok("store", "info", str(root), "-o", "json").json
    assert found["clean"] is True
    assert (found["commitLogFiles"], found["commitLogFileSize"], found["commitLogMinOffset"]) == (1, 1024, 0)
    assert (found["topics"], found["queues"], found["messages"]) == (2, 3, 5)
    assert (found["firstStoreTimestamp"], found["lastStoreTimestamp"]) == (NOW, NOW + 60_000)
    assert found["configFiles"] == ["delayOffset.json"]


def test_info_for_people(offline: Cli, root: Path) -> None:
    (root / "abort").touch()
    lines = offline.ok("store", "info", str(root)).out.splitlines()
    assert lines[0].split() == ["FIELD", "VALUE"]
    assert lines[1].split(maxsplit=1) == ["clean", "no: in use, or its broker did not stop cleanly"]
    assert any(line.split() == ["commitLogBytes", "1.0", "KiB"] for line in lines)


def test_ls(offline: Cli, root: Path) -> None:
    rows = offline.ok("store", "ls", str(root), "-o", "json").json
    assert [(row["topic"], row["queueId"], row["minOffset"], row["maxOffset"], row["messages"]) for row in rows] == [
        ("blobs", 0, 0, 1, 1),
        ("orders", 0, 0, 3, 3),
        ("orders", 1, 0, 1, 1),
    ]
    table = offline.ok("store", "ls", str(root), "orders").out.splitlines()
    assert table[1].split() == ["orders", "0", "0", "3", "3"]
    assert len(table) == 3


@pytest.mark.parametrize("args", [["ls", "DIR", "none"], ["cat", "DIR", "none"], ["cat", "DIR", "orders", "9"]])
def test_topics_and_queues_that_are_not_there(offline: Cli, root: Path, args: list[str]) -> None:
    ended = offline("store", *(str(root) if word == "DIR" else word for word in args))
    assert ended.status == ExitCode.NOT_FOUND
    assert f"{root} has no " in ended.err


def test_du(offline: Cli, root: Path) -> None:
    rows = offline.ok("store", "du", str(root), "orders", "-o", "json").json
    sizes = [row["storeSize"] for row in offline.ok("store", "cat", str(root), "orders", "0", "-o", "json").json_lines]
    assert (rows[0]["messages"], rows[0]["bytes"]) == (3, sum(sizes))
    tagged = list(csv.DictReader(io.StringIO(offline.ok("store", "du", str(root), "--tags", "-o", "csv").out)))
    assert [(row["topic"], row["tagsCode"], row["messages"]) for row in tagged] == [
        ("blobs", "0", "1"),
        ("orders", "3433164", "3"),
        ("orders", "0", "1"),
    ]


# -- cat, get -------------------------------------------------------------------------------------------


def test_cat(offline: Cli, root: Path) -> None:
    rows = offline.ok("store", "cat", str(root), "orders", "-o", "json").json_lines
    assert [(row["queueId"], row["queueOffset"], row["body"]) for row in rows] == [
        (0, 0, "00000000"),
        (0, 1, "00000001"),
        (0, 2, "00000002"),
        (1, 0, "grand total"),
    ]
    assert rows[0]["tags"] == "paid"


def test_cat_a_part(offline: Cli, root: Path) -> None:
    args = ["store", "cat", str(root), "orders", "0", "--offset", "1", "--count", "1"]
    assert [row["queueOffset"] for row in offline.ok(*args, "-o", "json").json_lines] == [1]
    assert offline.ok(*args).out.endswith(" orders/0@1 tags=paid 00000001\n")
    assert offline.ok("store", "cat", str(root), "orders", "0", "--offset", "9").out == ""


def test_cat_bytes(offline: Cli, root: Path) -> None:
    [row] = offline.ok("store", "cat", str(root), "blobs", "-o", "json").json_lines
    assert (row["body"], base64.b64decode(row["bodyBase64"])) == (None, b"\xff\x00")
    assert (row["msgId"], row["keys"], row["properties"]["region"]) == (UNIQUE, ["k1", "k2"], "eu")


def test_cat_tells_what_it_cannot_read(offline: Cli, root: Path) -> None:
    break_first_record(root)
    ended = offline("store", "cat", str(root), "orders", "0", "-o", "json")
    assert ended.status == ExitCode.REFUSED
    assert [row["queueOffset"] for row in ended.json_lines] == [1, 2]
    assert ended.err == "warning: orders/0@0: no record at log offset 0\n"


def test_get(offline: Cli, root: Path) -> None:
    listed = offline.ok("store", "cat", str(root), "blobs", "-o", "json").json_lines[0]
    by_offset = offline.ok("store", "get", str(root), "--offset", str(listed["commitLogOffset"]), "-o", "json").json
    assert listed.items() <= by_offset.items()
    assert (by_offset["bornHost"], by_offset["storeHost"]) == ("10.1.2.3:40000", "127.0.0.1:10911")
    assert by_offset["bodyCRC"] == zlib.crc32(b"\xff\x00") & 0x7FFFFFFF
    for msg_id in (listed["offsetMsgId"], UNIQUE):
        found = yaml.safe_load(offline.ok("store", "get", str(root), "--id", msg_id, "-o", "yaml").out)
        assert found == by_offset


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["--offset", "5"], ExitCode.NOT_FOUND),
        (["--offset", "99999"], ExitCode.NOT_FOUND),
        (["--id", "7F00000100002A9F00000000000000FF"], ExitCode.NOT_FOUND),
        (["--id", "nonsense"], ExitCode.NOT_FOUND),
        ([], ExitCode.USAGE),
        (["--offset", "0", "--id", UNIQUE], ExitCode.USAGE),
    ],
)
def test_get_nothing(offline: Cli, root: Path, args: list[str], status: ExitCode) -> None:
    assert offline("store", "get", str(root), *args).status == status


# -- verify ---------------------------------------------------------------------------------------------


def test_verify_a_sound_store(offline: Cli, root: Path) -> None:
    ended = offline.ok("store", "verify", str(root), "-o", "json")
    assert ended.json == []
    assert ended.err == "5 records, 5 queue entries, 3 keys: no damage\n"


def test_verify_damage(offline: Cli, root: Path) -> None:
    break_first_record(root)
    ended = offline("store", "verify", str(root), "-o", "json")
    assert ended.status == ExitCode.REFUSED
    assert [(row["severity"], row["file"], row["position"]) for row in ended.json] == [
        ("damage", f"commitlog/{0:020d}", 0),
        ("damage", f"consumequeue/orders/0/{0:020d}", 0),
    ]
    assert ": damage in 2 places\n" in ended.err


def test_progress_of_long_checks() -> None:
    now = [0.0]
    for terminal, expected in ((False, ""), (True, "\rchecked 1.0 KiB of 4.0 KiB (25%)")):
        now[0] = 0.0
        err = Stream(terminal=terminal)
        progress = Progress(Session(Environment(stderr=err, clock=lambda: now[0])), "checked")
        progress(10, 4096)
        assert err.content() == ""
        now[0] = 1.5
        progress(1024, 4096)
        progress(2048, 4096)
        assert err.content().rstrip(" ") == expected
        progress.clear()
        progress.clear()
        assert err.content().count("\r") == (3 if terminal else 0)


# -- grep -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (["--key", "k2"], 1),
        (["--key", UNIQUE], 1),
        (["--property", "region=eu"], 1),
        (["--property", "region=eu", "--topic", "orders"], 0),
        (["--topic", "orders"], 4),
        (["--topic", "orders", "--max", "2"], 2),
        (["--body", "^grand t"], 1),
        (["--body", r"0[12]$"], 2),
        (["--from", str(NOW + 1)], 1),
        (["--to", str(NOW + 1)], 4),
        ([], 5),
    ],
)
def test_grep(offline: Cli, root: Path, args: list[str], count: int) -> None:
    ended = offline("store", "grep", str(root), *args)
    assert len(ended.json_lines) == count
    assert ended.status == (ExitCode.DONE if count else ExitCode.REFUSED)


def test_grep_goes_on_behind_damage(offline: Cli, root: Path) -> None:
    break_first_record(root)
    ended = offline.ok("store", "grep", str(root), "-o", "table")
    assert len(ended.out.splitlines()) == 4
    assert ended.err == "warning: log offset 0: no record, nor a blank up to the file's end\n"


@pytest.mark.parametrize("args", [["--body", "("], ["--property", "x"], ["--from", "soon"], ["--to", "late"]])
def test_grep_that_cannot_be_meant(offline: Cli, root: Path, args: list[str]) -> None:
    ended = offline("store", "grep", str(root), *args)
    assert ended.status == ExitCode.USAGE
    assert args[0] in ended.err


# -- folders of all kinds -------------------------------------------------------------------------------

VERBS: list[list[str]] = [
    ["info"],
    ["ls"],
    ["du"],
    ["cat", "orders"],
    ["get", "--offset", "0"],
    ["verify"],
    ["grep", "--key", "k1"],
]


def call(cli: Cli, verb: list[str], directory: Path) -> Any:
    return cli("store", verb[0], str(directory), *verb[1:])


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_not_a_store(offline: Cli, tmp_path: Path, verb: list[str]) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        ended = call(offline, verb, directory)
        assert ended.status == ExitCode.NOT_FOUND
        assert ended.err.startswith(f"error: {directory} ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_read_only_folder_stays_as_it_is(offline: Cli, root: Path, verb: list[str]) -> None:
    paths = [root, *root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}
    try:
        assert call(offline, verb, root).status == ExitCode.DONE
        assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in [root, *root.rglob("*")]} == before
    finally:
        for path in paths:
            path.chmod(0o755)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_beside_a_broker(offline: Cli, tmp_path: Path, verb: list[str]) -> None:
    store = new_store(tmp_path / "s")
    try:
        put_all(store, [message(topic="orders", properties=b"KEYS\x01k1")])
        store.flush_queues()
        assert call(offline, verb, tmp_path / "s").status == ExitCode.DONE
        put_all(store, [message(topic="orders")])
    finally:
        store.close()
    assert StoreFolder(tmp_path / "s").queues[0].max_offset == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read(offline: Cli, root: Path) -> None:
    (root / "commitlog").chmod(0)
    try:
        ended = offline("store", "info", str(root))
    finally:
        (root / "commitlog").chmod(0o755)
    assert ended.status == ExitCode.REFUSED
    assert "cannot read" in ended.err


def test_a_store_that_lost_its_log(offline: Cli, root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    assert offline.ok("store", "info", str(root), "-o", "json").json["commitLogFiles"] == 0
    assert offline("store", "verify", str(root)).status == ExitCode.REFUSED
