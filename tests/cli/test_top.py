"""`mqctl top` as a person sees it: the real program in a pseudo-terminal. And its keys by themselves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqctl.commands.top.state import Panel, State, keys_of
from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.cli.terminal import Terminal
from tests.peers.ours import OurBroker, OurNamesrv

ENTER_SCREEN, LEAVE_SCREEN, SHOW_CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


@pytest.fixture
def terminal(broker: OurBroker, tmp_path: Path) -> Iterator[Terminal]:
    started = Terminal("top", "-n", broker.namesrv, "--every", "0.5", home=tmp_path)
    yield started
    started.close()


def test_look_around_and_quit(cli: Cli, broker: OurBroker, topic: str, terminal: Terminal) -> None:
    """All three tables, into a broker and back, and the terminal is as it was."""
    cli.ok("msg", "send", topic, "x", "--count", "20")
    terminal.wait_for(topic[:30])
    for text in ("Brokers (1)", "Busiest topics", "Groups that are behind", broker.address):
        assert text in terminal.text()
    assert ENTER_SCREEN in terminal.drawn
    terminal.press(b"1\r")
    terminal.wait_for("commitLogMaxOffset")
    terminal.press(b"\x1b")
    terminal.wait_for("Busiest topics")
    terminal.press(b"2")
    terminal.press(b"\r")
    terminal.wait_for("LAST MESSAGE")
    terminal.press(b"q")
    assert terminal.end() == ExitCode.DONE
    assert LEAVE_SCREEN in terminal.drawn
    assert SHOW_CURSOR in terminal.drawn
    assert terminal.restored()
    assert b"Traceback" not in terminal.drawn


@pytest.fixture
def still(tmp_path: Path) -> Iterator[Terminal]:
    """On servers of the test's own: two topics, and a group that is behind. What it asked once is not asked again, so
    that all that is drawn later follows from a key or from the window."""
    with OurNamesrv(tmp_path / "namesrv") as namesrv, OurBroker(tmp_path / "broker", namesrv.address):
        cli = Cli({"NAMESRV_ADDR": namesrv.address, "HOME": str(tmp_path)})
        for topic in ("apples", "zebras"):
            cli.ok("msg", "send", topic, "x", "--count", "4")
        cli.ok("consumer", "update", "slow")
        cli.ok("offset", "set", "slow", "-t", "zebras", "-q", "0", "--to", "0", "--yes")
        started = Terminal("top", "-n", namesrv.address, "--every", "600", home=tmp_path)
        started.wait_for("slow")
        yield started
        started.press(b"q")
        assert started.end() == ExitCode.DONE
        assert started.restored()
        started.close()


def last_screen(drawn: str) -> str:
    """The newest one that is whole; empty before there is one."""
    return drawn.rpartition("q quit")[0].rpartition("mqctl top  ")[2]


def test_sorting_on_the_screen(still: Terminal) -> None:
    def in_order(mark: str, *names: str) -> Callable[[str], bool]:
        def holds(drawn: str) -> bool:
            screen = last_screen(drawn)
            places = [screen.find(f"\n{name} ") for name in names]
            return mark in screen and -1 not in places and places == sorted(places)

        return holds

    still.press(b"2s")
    still.wait_until(in_order("BYTES/S ▾"))
    still.press(b"s")
    still.wait_until(in_order("TOPIC ▾", "apples", "zebras"))
    still.press(b"r")
    still.wait_until(in_order("TOPIC ▾", "zebras", "apples"))


def test_into_a_group_that_is_behind_and_back(still: Terminal) -> None:
    still.press(b"3\r")
    still.wait_until(lambda drawn: "Groups that are behind: slow" in last_screen(drawn))
    assert "CONSUMED" in last_screen(still.text())
    still.press(b"\x1b")
    still.wait_until(lambda drawn: "Busiest topics" in last_screen(drawn))


def test_a_window_that_changes(still: Terminal) -> None:
    still.resize(12, 50)
    still.wait_until(lambda drawn: "…" in drawn)
    lines = still.text().rpartition("mqctl top  ")[2].splitlines()
    assert max(map(len, lines)) <= 50
    still.resize(40, 160)
    still.wait_until(lambda drawn: "zebras" in last_screen(drawn))


@pytest.mark.parametrize("way", ["ctrl-c", "SIGTERM"])
def test_other_ways_to_end(terminal: Terminal, way: str) -> None:
    terminal.wait_for("Brokers (1)")
    if way == "ctrl-c":
        terminal.press(b"\x03")
    else:
        terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == ExitCode.DONE
    assert LEAVE_SCREEN in terminal.drawn
    assert terminal.restored()


def test_nobody_answers(tmp_path: Path) -> None:
    """It says so and goes on."""
    terminal = Terminal("top", "-n", "127.0.0.1:1", "--every", "0.2", home=tmp_path)
    try:
        terminal.wait_for("127.0.0.1:1")
        terminal.press(b"q")
        assert terminal.end() == ExitCode.DONE
    finally:
        terminal.close()


def test_without_a_terminal(cli: Cli) -> None:
    ended = cli("top")
    assert ended.status == ExitCode.USAGE
    assert "error: top needs a terminal" in ended.err


# -- keys -----------------------------------------------------------------------------------------------

ROWS = [{"topic": "a", "inTps": 1.0, "inBytes": 9.0}, {"topic": "b", "inTps": 2.0, "inBytes": 3.0}]


def test_what_a_terminal_sends() -> None:
    assert keys_of(b"q\t\x1b[A\x1bOBjk") == ["q", "tab", "up", "down", "j", "k"]
    assert keys_of(b"\x1b") == ["esc"]
    assert keys_of(b"\x1b[15~q")[-1] == "q"
    assert len(keys_of("ü".encode())) == 2


def test_sorting() -> None:
    state = State(panel=Panel.TOPICS)
    assert [row["topic"] for row in state.sorted(Panel.TOPICS, ROWS)] == ["b", "a"]
    state.press("s", ROWS)
    assert [row["topic"] for row in state.sorted(Panel.TOPICS, ROWS)] == ["a", "b"]
    state.press("r", ROWS)
    assert [row["topic"] for row in state.sorted(Panel.TOPICS, ROWS)] == ["b", "a"]
    state.press("s", ROWS)
    assert state.sorts[Panel.TOPICS] == "topic"


def test_moving_stays_inside() -> None:
    state = State(panel=Panel.TOPICS)
    for _ in range(5):
        state.press("down", ROWS)
    assert state.line == 1
    for _ in range(5):
        state.press("up", ROWS)
    assert state.line == 0
    state.press("up", [])
    assert state.line == 0
    state.press("enter", [])
    assert state.detail is None
    state.press("enter", ROWS)
    assert state.detail == ROWS[0]
    state.press("tab", ROWS)
    assert state.panel is Panel.TOPICS
    state.press("esc", ROWS)
    state.press("tab", ROWS)
    assert (state.panel, state.detail) == (Panel.LAGS, None)
