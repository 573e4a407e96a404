"""`mqctl replay` from topics and store folders, into topics of the same cluster and another."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.peers.ours import OurBroker, OurNamesrv

KEPT = ("body", "tags", "keys", "flag")


def fill(cli: Cli, topic: str, count: int) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    lines = "".join(
        f'{{"body": "m{number}", "tags": "t{number % 2}", "keys": ["k{number}"], "properties": {{"n": "{number}"}}}}\n'
        for number in range(count)
    )
    cli.ok("msg", "send", topic, "-", "--json", stdin=lines.encode())


def rows(cli: Cli, topic: str) -> list[dict[str, Any]]:
    return cli.ok("msg", "print", topic, "-o", "json").json_lines


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextlib.contextmanager
def stopped(broker: OurBroker) -> Iterator[None]:
    """It takes requests, and answers them afterwards."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def same(row: dict[str, Any]) -> tuple[Any, ...]:
    return (*(str(row[name]) for name in KEPT), row["properties"]["n"])


def test_everything_arrives_in_order(cli: Cli, topic: str) -> None:
    fill(cli, topic, 100)
    cli.ok("topic", "update", f"{topic}-copy", "-w", "2", "-r", "2")
    [done] = cli.ok("replay", topic, "--into", f"{topic}-copy", "--yes", "-o", "json").json
    assert done["messages"] == 100
    source, copies = rows(cli, topic), rows(cli, f"{topic}-copy")
    assert sorted(map(same, copies)) == sorted(map(same, source))

    def by_queue(found: list[dict[str, Any]]) -> list[list[str]]:
        return sorted([row["body"] for row in found if row["queueId"] == number] for number in range(2))

    assert by_queue(copies) == by_queue(source)
    assert not {row["msgId"] for row in copies} & {row["msgId"] for row in source}


def test_a_part_of_it(cli: Cli, topic: str) -> None:
    fill(cli, topic, 10)
    cli.ok("topic", "update", f"{topic}-copy")
    options = ["--tag", "t1", "--sql", "n > 3", "--since", "1h", "--rate", "1000", "--speed", "1000", "--yes"]
    [would] = cli.ok("replay", topic, "--into", f"{topic}-copy", *options, "--dry-run", "-o", "json").json
    assert would["messages"] == 3
    assert rows(cli, f"{topic}-copy") == []
    cli.ok("replay", topic, "--into", f"{topic}-copy", *options)
    assert [row["body"] for row in rows(cli, f"{topic}-copy")] == ["m5", "m7", "m9"]


def test_into_another_cluster_and_from_its_folder_back(cli: Cli, topic: str, tmp_path: Path) -> None:
    fill(cli, topic, 6)
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address) as other:
        there = Cli({"NAMESRV_ADDR": other.namesrv})
        there.ok("topic", "update", topic)
        cli.ok("replay", topic, "--into", topic, "--to-namesrv", other.namesrv, "--yes")
        assert sorted(map(same, rows(there, topic))) == sorted(map(same, rows(cli, topic)))
        folder = other.store_dir
    cli.ok("topic", "update", f"{topic}-back")
    options = ["--store", str(folder), "--key", "k3", "--yes"]
    cli.ok("replay", topic, "--into", f"{topic}-back", *options)
    assert [row["body"] for row in rows(cli, f"{topic}-back")] == ["m3"]


def test_what_cannot_be_replayed(cli: Cli, topic: str, tmp_path: Path) -> None:
    ended = cli("replay", topic, "--into", "x", "--yes")
    assert ended.status == ExitCode.NOT_FOUND
    fill(cli, topic, 1)
    assert cli("replay", topic, "--into", "x").status == ExitCode.USAGE
    ended = cli("replay", topic, "--into", "%DLQ%x", "--yes")
    assert (ended.status, "belongs to the brokers" in ended.err) == (ExitCode.REFUSED, True)
    assert cli("replay", topic, "--into", "x", "--store", str(tmp_path), "--yes").status == ExitCode.NOT_FOUND


# -- going on with what was interrupted ------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_was_interrupted_goes_on_and_nothing_comes_twice(
    broker: OurBroker, topic: str, tmp_path: Path, how: signal.Signals
) -> None:
    topic = f"{topic}-{how.name}"
    cli = Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})
    fill(cli, topic, 40)
    copy = f"{topic}-copy"
    cli.ok("topic", "update", copy, "-w", "2", "-r", "2")
    words = ("replay", topic, "--into", copy, "--tag", "t0 || t1", "--max", "30", "--rate", "4", "--yes")
    with program(*words, cwd=tmp_path, variables=cli.variables) as running:
        wait_for(lambda: len(rows(cli, copy)) >= 3)
        ended = cli("replay", "--resume", "--yes")
        assert (ended.status, "going on elsewhere" in ended.err) == (ExitCode.USAGE, True)
        ended = running.end(how)
    if how == signal.SIGINT:
        assert (ended.status, "go on with `mqctl replay --resume`" in ended.err) == (ExitCode.PARTIAL, True)
    before = len(rows(cli, copy))
    assert before < 30
    [would] = cli.ok("replay", "--resume", "--dry-run", "-o", "json").json
    assert would["messages"] == 30 - before
    assert cli("replay", "--resume").status == ExitCode.USAGE, "nobody agreed"
    [done] = cli.ok("replay", "--resume", topic, "--rate", "1000", "--yes", "-o", "json").json
    assert done["messages"] == 30 - before
    source = rows(cli, topic)
    copies = rows(cli, copy)
    assert sorted(row["body"] for row in copies) == sorted(row["body"] for row in source[:30])

    def by_queue(found: list[dict[str, Any]]) -> list[list[str]]:
        return sorted([row["body"] for row in found if row["queueId"] == number] for number in range(2))

    assert by_queue(copies) == by_queue(source[:30])
    ended = cli("replay", "--resume", "--yes")
    assert (ended.status, "no replay to go on with" in ended.err) == (ExitCode.NOT_FOUND, True)


def test_what_goes_on_into_its_own_topic_does_not_take_its_copies(
    broker: OurBroker, topic: str, tmp_path: Path
) -> None:
    cli = Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})
    fill(cli, topic, 10)
    with program(
        "replay", topic, "--into", topic, "--rate", "4", "--yes", cwd=tmp_path, variables=cli.variables
    ) as running:
        wait_for(lambda: len(rows(cli, topic)) >= 12)
        running.end(signal.SIGKILL)
    cli.ok("replay", "--resume", "--rate", "1000", "--yes")
    bodies = Counter(row["body"] for row in rows(cli, topic))
    assert bodies == {f"m{number}": 2 for number in range(10)}


def test_what_got_no_answer_is_not_sent_again(cli: Cli, topic: str, tmp_path: Path) -> None:
    """Not even the first message, when nothing is known to have arrived yet."""
    at_home = Cli({**cli.variables, "HOME": str(tmp_path)})
    fill(cli, topic, 6)
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address) as other:
        there = Cli({"NAMESRV_ADDR": other.namesrv})
        there.ok("topic", "update", "copy", "-w", "1", "-r", "1")
        with stopped(other):
            words = ["--into", "copy", "--to-namesrv", other.namesrv, "--timeout", "1", "--yes"]
            ended = at_home("replay", topic, *words)
            assert (ended.status, "go on with `mqctl replay --resume`" in ended.err) == (ExitCode.UNREACHABLE, True)
        wait_for(lambda: len(rows(there, "copy")) == 1)
        [done] = at_home.ok("replay", "--resume", "--yes", "-o", "json").json
        assert done["messages"] == 5
        assert sorted(row["body"] for row in rows(there, "copy")) == [f"m{number}" for number in range(6)]


def test_a_replay_that_cannot_begin_leaves_nothing_behind(cli: Cli, topic: str, tmp_path: Path) -> None:
    at_home = Cli({**cli.variables, "HOME": str(tmp_path)})
    assert at_home("replay", "--yes").status == ExitCode.USAGE
    assert at_home("replay", topic, "--into", "x", "--yes").status == ExitCode.NOT_FOUND
    assert at_home("replay", topic, "--into", "x", "--match", "(", "--yes").status == ExitCode.USAGE
    assert at_home("replay", "--resume", "--yes").status == ExitCode.NOT_FOUND
    broken = tmp_path / ".local/state/mqctl/replays/x.json"
    broken.write_text("{")
    assert at_home("replay", "--resume", "--yes").status == ExitCode.USAGE
