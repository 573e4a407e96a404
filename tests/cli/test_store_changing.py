"""`mqctl store repair`, `rebuild`, `export`, `import`: folders that change, but never beside a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, python
from tests.unit.store.stores import files_below, message, new_store, numbered, opened, put_all


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with opened(tmp_path / "store") as store:
        put_all(store, numbered(12, topic="orders", tags="paid"))
        put_all(store, [message(b"keyed", topic="orders", queue_id=1, properties=b"KEYS\x01k1")])
    return tmp_path / "store"


def contents(root: Path) -> dict[str, bytes]:
    """Of everything but the lock, whose file is opened to find out whether a broker has it."""
    return {name: (root / name).read_bytes() for name in files_below(root) if name != "lock" and "index" not in name}


def break_body(root: Path) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(90)
        file.write(b"?")


def bodies(cli: Cli, root: Path, *more: str) -> list[str]:
    return [row["body"] for row in cli("store", "cat", str(root), "orders", "-o", "json", *more).json_lines]


# -- repair ---------------------------------------------------------------------------------------------


def test_a_dry_run_tells_and_does_nothing(offline: Cli, root: Path) -> None:
    break_body(root)
    before = contents(root)
    rows = offline.ok("store", "repair", str(root), "--dry-run", "-o", "json").json
    assert rows[0]["lost"] == "the body's CRC does not match; record of orders/0@0"
    assert contents(root) == before


def test_repair(offline: Cli, root: Path) -> None:
    break_body(root)
    ended = offline.ok("store", "repair", str(root), "--yes", "-o", "json")
    assert [row["action"].split()[0] for row in ended.json] == ["114", "rebuilt"]
    assert ended.err.splitlines() == [f"what was replaced is kept in {root / 'damaged'}", "no damage"]
    assert offline("store", "verify", str(root)).status == ExitCode.DONE
    assert bodies(offline, root) == [f"{number:08d}" for number in range(1, 12)] + ["keyed"]


def test_nothing_to_repair(offline: Cli, root: Path) -> None:
    before = contents(root)
    ended = offline.ok("store", "repair", str(root), "-o", "json")
    assert (ended.json, ended.err) == ([], "no damage\n")
    assert contents(root) == before


@pytest.mark.parametrize("command", ["repair", "rebuild"])
def test_somebody_must_agree(offline: Cli, root: Path, command: str) -> None:
    break_body(root)
    before = contents(root)
    ended = offline("store", command, str(root), stdin=b"y\n")
    assert ended.status == ExitCode.USAGE
    assert "--yes" in ended.err
    assert contents(root) == before


def test_damage_that_stays(offline: Cli, tmp_path: Path) -> None:
    """Two messages with one place, as a broker leaves them that has lost its queues: nobody can say who is right."""
    root = tmp_path / "s"
    with opened(root) as store:
        put_all(store, numbered(4))
        store.queues["t", 0].next_offset = 1
        put_all(store, numbered(2))
        store.queues["t", 0].next_offset = 4
        put_all(store, numbered(1))
    ended = offline("store", "repair", str(root), "--yes")
    assert ended.status == ExitCode.REFUSED
    assert "damage is left that cannot be repaired" in ended.err
    assert "the queue offset goes back" in ended.err


# -- rebuild --------------------------------------------------------------------------------------------


def test_rebuild(offline: Cli, root: Path) -> None:
    before = contents(root)
    shutil.rmtree(root / "consumequeue" / "orders" / "1")
    shutil.rmtree(root / "index")
    ended = offline.ok("store", "rebuild", str(root), "--yes")
    assert ended.err == "13 entries in 2 queues, 1 keys\n"
    after = contents(root)
    assert {name: data for name, data in after.items() if name.startswith(("commitlog", "consumequeue"))} == {
        name: data for name, data in before.items() if name.startswith(("commitlog", "consumequeue"))
    }
    assert offline("store", "verify", str(root)).err == "13 records, 13 queue entries, 1 keys: no damage\n"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([], "2 queues and the key index"),
        (["--queues", "--topic", "orders"], "2 queues"),
        (["--index"], "the key index"),
        (["--topic", "none"], "what is missing"),
    ],
)
def test_what_would_be_rebuilt(offline: Cli, root: Path, options: list[str], what: str) -> None:
    before = contents(root)
    ended = offline.ok("store", "rebuild", str(root), "--dry-run", *options)
    assert ended.err.startswith(f"Rebuild {root} from ")
    assert ended.err.endswith(f" of log: {what}.\n")
    assert contents(root) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--queues"], "13 entries in 2 queues, 0 keys"),
        (["--index"], "0 entries in 0 queues, 1 keys"),
        (["--queues", "--index"], "13 entries in 2 queues, 1 keys"),
        (["--topic", "none"], "0 entries in 0 queues, 0 keys"),
    ],
)
def test_a_part_of_it(offline: Cli, root: Path, options: list[str], said: str) -> None:
    assert offline.ok("store", "rebuild", str(root), "--yes", *options).err == f"{said}\n"
    assert offline("store", "verify", str(root)).status == ExitCode.DONE


# -- export, import -------------------------------------------------------------------------------------


def test_out_of_one_store_and_into_another(offline: Cli, root: Path, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    assert offline.ok("store", "export", str(root), str(file), "--topic", "orders").err == "13 messages\n"
    target = tmp_path / "target"
    with opened(target) as store:
        put_all(store, numbered(1, start=99, topic="orders"))
    dry = offline.ok("store", "import", str(target), str(file), "--dry-run", "-o", "json")
    assert dry.json == [
        {"topic": "orders", "queueId": 0, "messages": 12},
        {"topic": "orders", "queueId": 1, "messages": 1},
    ]
    assert bodies(offline, target) == ["00000099"]
    done = offline.ok("store", "import", str(target), str(file), "-o", "json")
    assert done.json == dry.json
    assert done.err == "topic orders was added to config/topics.json\n13 messages were appended\n"
    assert bodies(offline, target) == ["00000099", *bodies(offline, root)]
    found = offline.ok("store", "cat", str(target), "orders", "1", "-o", "json").json_lines[0]
    assert (found["keys"], found["bornTimestamp"], found["queueOffset"]) == (["k1"], 999, 0)
    assert offline.ok("store", "get", str(target), "--offset", "0", "-o", "json").json["storeHost"] == "127.0.0.1:10911"
    assert offline("store", "verify", str(target)).status == ExitCode.DONE


def test_pipes(root: Path, tmp_path: Path) -> None:
    """As real processes, through real pipes; into an empty folder."""
    (tmp_path / "new").mkdir()
    code = f"""
import subprocess, sys
run = [sys.executable, "-m", "mqctl", "store"]
out = subprocess.Popen([*run, "export", {str(root)!r}], stdout=subprocess.PIPE)
into = [*run, "import", {str(tmp_path / "new")!r}, "--store-host", "[2001:db8::1]:9"]
subprocess.run(into, stdin=out.stdout, check=True)
assert out.wait() == 0
"""
    python(code, cwd=tmp_path)
    [found] = Cli({}).ok("store", "grep", str(tmp_path / "new"), "--key", "k1").json_lines
    assert found["body"] == "keyed"
    assert found["offsetMsgId"].startswith("20010DB8")


def test_a_stream_that_was_cut_off(offline: Cli, root: Path, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    offline.ok("store", "export", str(root), str(file))
    file.write_bytes(file.read_bytes()[:-20])
    with opened(tmp_path / "t"):
        pass
    ended = offline("store", "import", str(tmp_path / "t"), str(file))
    assert ended.status == ExitCode.REFUSED
    assert ended.err.splitlines() == [
        "topic orders was added to config/topics.json",
        "12 messages were appended before this:",
        "error: the stream was cut off after 12 messages",
    ]


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["export", "STORE", "nowhere/file"], ExitCode.NOT_FOUND, "nowhere/file does not exist"),
        (["import", "STORE", "nowhere"], ExitCode.NOT_FOUND, "nowhere does not exist"),
        (["import", "STORE", "."], ExitCode.REFUSED, "cannot use"),
        (["import", "nowhere", "-"], ExitCode.NOT_FOUND, "nowhere does not exist"),
        (["import", "STORE", "-"], ExitCode.REFUSED, "no stream of messages"),
        (["import", "STORE", "-", "--store-host", "x"], ExitCode.USAGE, "is not IP:PORT"),
        (["info", "STORE", "--commitlog", "nowhere"], ExitCode.NOT_FOUND, "storePathCommitLog"),
    ],
)
def test_what_cannot_be_meant(offline: Cli, root: Path, args: list[str], status: ExitCode, said: str) -> None:
    ended = offline("store", *(str(root) if word == "STORE" else word for word in args))
    assert ended.status == status, ended
    assert said in ended.err


def test_no_bytes_for_terminals(offline: Cli, root: Path) -> None:
    ended = offline("store", "export", str(root), terminal=True)
    assert (ended.status, ended.out) == (ExitCode.USAGE, "")


def test_export_tells_of_damage(offline: Cli, root: Path, tmp_path: Path) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(4)
        file.write(b"\0")
    ended = offline("store", "export", str(root), str(tmp_path / "m"))
    assert ended.status == ExitCode.REFUSED
    assert ended.err.splitlines()[-1] == "12 messages"


# -- brokers, and logs elsewhere ------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from mqctl.store.lock import StoreLock
from mqctl.cli import run
import subprocess
lock = StoreLock(Path(sys.argv[1]))
lock.acquire()
ended = subprocess.run([sys.executable, "-m", "mqctl", "store", *sys.argv[2:]], capture_output=True, text=True)
print(ended.returncode, ended.stderr)
"""


@pytest.mark.parametrize("verb", [["repair", "--yes"], ["repair", "--dry-run"], ["rebuild", "--yes"], ["import"]])
def test_a_store_in_use_is_left_alone(root: Path, tmp_path: Path, verb: list[str]) -> None:
    before = contents(root)
    stream = tmp_path / "m"
    Cli({}).ok("store", "export", str(root), str(stream))
    more = [str(stream)] if verb == ["import"] else []
    lines = python(HOLD, str(root), verb[0], str(root), *more, *verb[1:], cwd=tmp_path)
    assert lines[0].startswith(f"{ExitCode.REFUSED:d} error: the store {root} is in use")
    assert lines[1].startswith("hint: stop that broker first")
    assert contents(root) == before


def test_a_log_elsewhere(offline: Cli, root: Path, tmp_path: Path) -> None:
    (root / "commitlog").rename(tmp_path / "log")
    elsewhere = ["--commitlog", str(tmp_path / "log")]
    ended = offline("store", "verify", str(root))
    assert ended.status == ExitCode.REFUSED
    assert "name it with --commitlog" in ended.out
    for verb in (["verify"], ["info"], ["ls"], ["du"], ["grep", "--key", "k1"], ["get", "--offset", "0"]):
        assert offline("store", verb[0], str(root), *verb[1:], *elsewhere).status == ExitCode.DONE
    assert len(bodies(offline, root, *elsewhere)) == 13
    with (tmp_path / "log" / f"{0:020d}").open("r+b") as file:
        file.seek(90)
        file.write(b"?")
    ended = offline("store", "verify", str(root), *elsewhere, "-o", "json")
    assert ended.json[0]["file"] == str(tmp_path / "log" / f"{0:020d}")
    offline.ok("store", "repair", str(root), "--yes", *elsewhere)
    offline.ok("store", "rebuild", str(root), "--yes", *elsewhere)
    assert len(bodies(offline, root, *elsewhere)) == 12
    stream = tmp_path / "m"
    offline.ok("store", "export", str(root), str(stream), *elsewhere)
    offline.ok("store", "import", str(root), str(stream), *elsewhere)
    assert len(bodies(offline, root, *elsewhere)) == 24
    assert not (root / "commitlog").exists()


@pytest.mark.parametrize("verb", ["repair", "rebuild"])
def test_a_store_without_its_log_is_left_alone(offline: Cli, root: Path, verb: str) -> None:
    """It may only lie elsewhere; judged without it, every queue would be damaged."""
    shutil.rmtree(root / "commitlog")
    before = contents(root)
    ended = offline("store", verb, str(root), "--yes")
    assert ended.status == ExitCode.NOT_FOUND
    assert "--commitlog" in ended.err
    assert contents(root) == before


def test_options_of_servers_are_not_offered(offline: Cli) -> None:
    for words in (["store"], ["store", "info"], ["store", "repair"]):
        text = offline.ok(*words, "--help").out
        assert "--namesrv" not in text
        assert "--timeout" not in text


def test_a_store_that_a_broker_writes_can_be_exported(offline: Cli, tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    try:
        put_all(store, numbered(3))
        assert offline.ok("store", "export", str(tmp_path / "s"), str(tmp_path / "m")).err == "3 messages\n"
    finally:
        store.close()
