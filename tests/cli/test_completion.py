"""Shell completion: the scripts in completions/, and what they are answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mqctl.completion import split_line
from tests.cli.running import Cli
from tests.peers.ours import REPOSITORY, OurBroker

FILES = {"bash": "mqctl.bash", "zsh": "_mqctl", "fish": "mqctl.fish"}


def complete(line: str, shell: str = "bash", **variables: str) -> list[str]:
    return Cli({"_MQCTL_SHELL": shell, "_MQCTL_LINE": line, **variables}).ok().out.splitlines()


@pytest.mark.parametrize("shell", FILES)
def test_the_files_are_current(offline: Cli, shell: str) -> None:
    """If not: mqctl completion SHELL > completions/FILE"""
    assert (REPOSITORY / "completions" / FILES[shell]).read_text() == offline.ok("completion", shell).out


def test_commands_and_options() -> None:
    assert complete("mqctl topi") == ["topic"]
    assert {"update", "list", "route", "stats", "resize", "delete"} <= set(complete("mqctl topic "))
    assert "--no-system" in complete("mqctl topic list --")
    assert complete("mqctl topic list -o j") == ["json"]
    assert complete("mqctl completion ") == ["bash", "zsh", "fish"]


def test_help_goes_along_where_the_shell_shows_it() -> None:
    assert complete("mqctl topi", "zsh") == ["topic:Create, change and describe topics."]
    assert complete("mqctl topi", "fish") == ["topic\tCreate, change and describe topics."]


def test_files_are_left_to_the_shell() -> None:
    assert complete("mqctl broker -c ") == []


def test_topics_come_from_the_name_server(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("topic", "update", topic)
    for line in (
        f"mqctl -n {broker.namesrv} topic route {topic[:-2]}",
        f"mqctl topic update --namesrv '{broker.namesrv};x:1' {topic[:-2]}",
        f"mqctl msg send -n {broker.namesrv} {topic[:-2]}",
    ):
        assert complete(line) == [topic]
    assert topic in complete("mqctl msg tail ", NAMESRV_ADDR=broker.namesrv)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:1", "nonsense"])
def test_without_a_name_server_there_is_nothing_to_say(address: str) -> None:
    assert complete("mqctl topic route ", NAMESRV_ADDR=address) == []


@pytest.mark.parametrize(
    ("line", "words", "incomplete"),
    [
        ("mqctl ", [], ""),
        ("mqctl to", [], "to"),
        ("X=1 /usr/bin/mqctl topic 'a b' ", ["topic", "a b"], ""),
        ("mqctl msg send t 'open quo", ["msg", "send", "t"], "open quo"),
        ("mqctl msg send t #x", ["msg", "send", "t"], "#x"),
        ("", [], ""),
        ("something else ", [], ""),
    ],
)
def test_split_line(line: str, words: list[str], incomplete: str) -> None:
    assert split_line(line) == (words, incomplete)


def ask_bash(tmp_path: Path, line: str, **variables: str) -> list[str]:
    """What a real bash would offer, with a program `mqctl` on its path."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    program = tmp_path / "mqctl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mqctl "$@"\n')
    program.chmod(0o755)
    script = (
        f'source "{REPOSITORY}/completions/mqctl.bash"; COMP_LINE="$1"; COMP_POINT=${{#1}}; _mqctl mqctl; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [bash, "--norc", "-c", script, "bash", line],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stderr == ""
    return ended.stdout.split()


def test_a_real_bash(cli: Cli, broker: OurBroker, topic: str, tmp_path: Path) -> None:
    assert ask_bash(tmp_path, "mqctl st") == ["standalone", "store"]
    cli.ok("topic", "update", topic)
    assert ask_bash(tmp_path, f"mqctl topic route {topic}", NAMESRV_ADDR=broker.namesrv) == [topic]
