"""Names and numbers that cannot be: said in a line, with the exit status that the documentation gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli

NO_NAMES = ["", " ", "two words", "../etc/passwd", "t\u00f6pic", "line\nbreak", "x" * 300, "a;b", "\x1b[31m"]
QUEUES_MAX = 65_536


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize(
    "words",
    [
        "topic update NAME",
        "topic update NAME --dry-run",
        "topic order set NAME broker-a:8",
        "consumer update NAME",
        "consumer update NAME --dry-run",
        "offset clone TOOLS_CONSUMER NAME --yes",
    ],
)
def test_names_that_are_none(cli: Cli, words: str, name: str) -> None:
    ended = cli(*(name if word == "NAME" else word for word in words.split()))
    assert (ended.status, ended.out) == (ExitCode.USAGE, "")
    error, hint = ended.err.splitlines()
    assert error.startswith("error: ")
    assert " is no name of a " in error
    assert hint.startswith("hint: use 1 to ")
    assert error.isprintable()


@pytest.mark.parametrize("name", NO_NAMES[1:])
@pytest.mark.parametrize(
    "words",
    ["topic route NAME", "topic delete NAME --yes", "consumer progress NAME", "offset get NAME -t t", "lag NAME"],
)
def test_names_that_nobody_can_have(cli: Cli, words: str, name: str) -> None:
    ended = cli(*(name if word == "NAME" else word for word in words.split()))
    assert (ended.status, ended.out) == (ExitCode.NOT_FOUND, "")
    assert ended.err.startswith(("error: the topic", "error: there is no consumer group"))


@pytest.mark.parametrize("option", ["-w", "-r"])
@pytest.mark.parametrize("number", ["-1", str(QUEUES_MAX + 1), "1000000", "9" * 30, "many", "1.5", ""])
def test_numbers_of_queues_that_cannot_be(cli: Cli, topic: str, option: str, number: str) -> None:
    ended = cli("topic", "update", topic, option, number)
    assert (ended.status, ended.out) == (ExitCode.USAGE, "")
    assert ended.err.splitlines()[-1].startswith(f"Error: Invalid value for '{option}'")
    assert cli("topic", "route", topic).status == ExitCode.NOT_FOUND


def test_a_topic_without_write_queues_is_told(cli: Cli, topic: str) -> None:
    ended = cli.ok("topic", "update", topic, "-w", "0")
    assert "warning: broker-a: without a write queue nobody can send to it\n" in ended.err
    [row] = cli.ok("topic", "route", topic, "-o", "json").json
    assert row["writeQueueNums"] == 0


def test_names_in_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text("- topicName: two words")
    ended = cli("topic", "apply", "-f", str(file), "--dry-run")
    assert (ended.status, ended.out) == (ExitCode.USAGE, "")
    assert ended.err.startswith("error: 'two words' is no name of a topic\nhint: ")
