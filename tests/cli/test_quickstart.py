"""`mqctl quickstart`: as a person sees it, as a log sees it, and that it leaves nothing behind."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.cli.terminal import Terminal


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def terminal(tmp_path: Path, temporary: Path) -> Iterator[Terminal]:
    started = Terminal("quickstart", "--rate", "100", home=tmp_path, variables={"TMPDIR": str(temporary)})
    yield started
    started.close()


def test_one_screen_until_ctrl_c(terminal: Terminal, temporary: Path) -> None:
    terminal.wait_for("end to end p50 ")
    for text in ("producer", "consumer-1", "consumer-2", "QUEUES", "LAG", "lag --all", "Ctrl-C stops everything"):
        assert text in terminal.text()
    assert list(temporary.iterdir()), "the store"
    terminal.press(b"\x03")
    assert terminal.end() == ExitCode.DONE
    assert re.search(r"sent [1-9]\d*, consumed [1-9]\d*\. Servers to keep: mqctl standalone\s*$", terminal.text())
    assert "Traceback" not in terminal.text()
    assert terminal.restored()
    assert list(temporary.iterdir()) == []


def test_it_ends_by_itself_and_nothing_is_missing(tmp_path: Path, temporary: Path) -> None:
    terminal = Terminal("quickstart", "--seconds", "2", home=tmp_path, variables={"TMPDIR": str(temporary)})
    try:
        assert terminal.end() == ExitCode.DONE
    finally:
        terminal.close()
    queues = re.findall(r"consumer-\d +billing +[\d,]+ +(\d)", terminal.text())
    assert queues[-2:] == ["4", "4"]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_lines_and_a_folder_that_stays(tmp_path: Path, signal_number: int) -> None:
    """And every command it tells to try works."""
    with program("quickstart", "--store", "data", "--rate", "200", cwd=tmp_path) as running:
        first = running.line()
        found = re.fullmatch(r"quickstart: name server (\S+), broker broker-a (\S+), store (\S+)", first)
        assert found, first
        assert found[3] == str(tmp_path / "data")
        told = [running.line() for _ in range(8)]
        assert told[0] == "Try in a second terminal, while this runs:"
        assert told[-1] == f"Ctrl-C stops everything; the messages stay in {tmp_path / 'data'}."
        assert re.fullmatch(
            r"sent \d+  consumer-1 \d+ \(4 queues, lag \d+\)  consumer-2 \d+ \(4 queues, lag \d+\)  "
            r"end to end p50 [\d.]+ ms p99 [\d.]+ ms",
            running.line(),
        )
        cli = Cli({"NAMESRV_ADDR": found[1]})
        for words in map(shlex.split, told[1:-1]):
            assert words[0] == "mqctl"
            if words[-1] != "top":
                cli.ok(*words[1:])
        ended = running.end(signal_number)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[-1].endswith(f"Servers to keep: mqctl standalone --store {tmp_path / 'data'}")
    assert Cli({}).ok("store", "verify", str(tmp_path / "data")).err.endswith("no damage\n")
