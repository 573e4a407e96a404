"""`--watch` of the commands that have it: round after round, also where a single run would end with a status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqctl.cli import run
from mqctl.client.blocking import PushConsumer
from mqctl.env import Environment
from mqctl.exit import ExitCode
from tests.cli.running import Cli, Stream
from tests.cli.terminal import Terminal
from tests.peers.ours import OurBroker

TOPIC, GROUP = "test-watching", "g-test-watching"
ROUNDS = 2


class Impatient(Stream):
    """A terminal whose user presses Ctrl-C once so many listings came."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0

    def flush(self) -> None:
        super().flush()
        self.listings += 1
        if self.listings == ROUNDS:
            raise KeyboardInterrupt


def watched(broker: OurBroker, *words: str) -> tuple[int, str, str]:
    """The exit status, and what was printed."""
    out, err = Impatient(), Stream()
    env = Environment(stdin=Stream(), stdout=out, stderr=err, variables={"NAMESRV_ADDR": broker.namesrv})
    status = run([*words, "--watch", "0.1", "-o", "csv"], env)
    return int(status), out.content(), err.content()


def test_in_a_terminal(cli: Cli, topic: str, tmp_path: Path) -> None:
    """The screen is drawn anew with what has changed, until Ctrl-C."""
    cli.ok("topic", "update", topic, "-w", "1", "-r", "1")
    words = ("topic", "stats", topic, "--watch", "0.2")
    with closing(Terminal(*words, home=tmp_path, variables=cli.variables)) as terminal:
        terminal.wait_for("LAST MESSAGE")
        cli.ok("msg", "send", topic, "x", "--count", "7")
        terminal.wait_until(lambda drawn: re.search(r"broker-a +0 +0 +7 +2\d{3}-", drawn) is not None)
        assert terminal.drawn.count(b"\x1b[H\x1b[2J") >= 2
        terminal.press(b"\x03")
        assert terminal.end() == ExitCode.DONE
        assert terminal.restored()
        assert b"Traceback" not in terminal.drawn


@pytest.fixture(scope="module")
def consumer(broker: OurBroker) -> Iterator[None]:
    Cli({"NAMESRV_ADDR": broker.namesrv}).ok("topic", "update", TOPIC)
    with PushConsumer(GROUP, lambda message: None, TOPIC, namesrv=broker.namesrv):
        yield


@pytest.mark.parametrize(
    "words",
    [
        ["broker", "consume-stats"],
        ["broker", "ha"],
        ["broker", "status"],
        ["cluster", "list"],
        ["cluster", "rt", "--count", "1"],
        ["consumer", "connections", GROUP],
        ["consumer", "progress"],
        ["consumer", "progress", GROUP],
        ["consumer", "status", GROUP],
        ["dlq", "list"],
        ["lag"],
        ["topic", "stats", TOPIC],
        ["topic", "stats", TOPIC, "--all"],
    ],
    ids=" ".join,
)
def test_rounds(broker: OurBroker, consumer: None, words: list[str]) -> None:
    status, out, err = watched(broker, *words)
    assert (status, out.count(out.splitlines()[0] + "\n")) == (ExitCode.DONE, ROUNDS), (out, err)


def test_an_alert_ends_nothing(broker: OurBroker) -> None:
    assert Cli({"NAMESRV_ADDR": broker.namesrv})("cluster", "health", "--max-disk", "0").status == ExitCode.ALERT
    status, out, err = watched(broker, "cluster", "health", "--max-disk", "0")
    assert (status, out.count("subject,healthy,detail\n")) == (ExitCode.DONE, ROUNDS)
    assert "1 of 2 are not well\n" in err
