"""Shell completion: the scripts in completions/, and what they are answered."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mqctl.client import Message, Producer
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


def test_groups_brokers_and_clusters_come_from_the_cluster(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("consumer", "update", topic)
    at = {"NAMESRV_ADDR": broker.namesrv}
    for line in (
        "consumer progress",
        "offset clone",
        "offset clone other",
        "msg push ID -g",
        "topic resize t --ignore",
    ):
        assert complete(f"mqctl {line} {topic[:-2]}", **at) == [topic]
    assert complete("mqctl broker status brok", **at) == [broker.name]
    assert complete("mqctl topic delete t -c Def", **at) == [broker.cluster]


def test_groups_of_producers(broker: OurBroker) -> None:
    async def ask() -> list[str]:
        async with Producer("completed-group", broker.namesrv) as producer:
            await producer.send(Message("completed-topic", b"x"))
            return await asyncio.to_thread(complete, "mqctl producer connections complet", NAMESRV_ADDR=broker.namesrv)

    assert asyncio.run(ask()) == ["completed-group"]


def test_contexts_come_from_the_file(tmp_path: Path) -> None:
    cli = Cli({"HOME": str(tmp_path)})
    for name in ("prod", "preview", "test"):
        cli.ok("context", "set", name, "-n", "127.0.0.1:1")
    for line in ("mqctl context use pr", "mqctl --context pr", "mqctl context set pr"):
        assert sorted(complete(line, HOME=str(tmp_path))) == ["preview", "prod"]


def test_names_are_asked_for_once_in_a_while(broker: OurBroker, tmp_path: Path) -> None:
    """In between they come from a file of the user's, for each cluster its own."""

    def complete_at(clock: float, address: str = broker.namesrv, **variables: str) -> list[str]:
        line = {"_MQCTL_SHELL": "bash", "_MQCTL_LINE": "mqctl topic route kept"}
        home = {"NAMESRV_ADDR": address, "HOME": str(tmp_path), **variables}
        return Cli({**line, **home}).ok(clock=clock).out.splitlines()

    cli = Cli({"NAMESRV_ADDR": broker.namesrv})
    assert complete_at(1000.0) == []
    cli.ok("topic", "update", "kept-a")
    assert complete_at(1009.0) == []
    assert complete_at(1011.0) == ["kept-a"]
    cli.ok("topic", "update", "kept-b")
    assert complete_at(1012.0, "127.0.0.1:1") == []
    assert complete_at(1013.0, f"{broker.namesrv};127.0.0.1:1") == ["kept-a", "kept-b"]
    assert complete_at(1014.0) == ["kept-a"]
    assert complete_at(1010.0) == ["kept-a", "kept-b"], "the clock was set back"
    kept = tmp_path / ".cache/mqctl/completion.json"
    for damage in ("", "[]", json.dumps({f"topics of {broker.namesrv}": {"at": 1020.0}})):
        kept.write_text(damage)
        assert complete_at(1021.0) == ["kept-a", "kept-b"]
    elsewhere = tmp_path / "elsewhere"
    assert complete_at(1022.0, XDG_CACHE_HOME=str(elsewhere)) == ["kept-a", "kept-b"]
    assert (elsewhere / "mqctl/completion.json").exists()
    (tmp_path / "file").write_text("")
    assert complete_at(1040.0, XDG_CACHE_HOME=str(tmp_path / "file")) == ["kept-a", "kept-b"], "it cannot be kept"


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


# -- real shells ----------------------------------------------------------------------------------------

# What each does with the script and a line: it prints what it would offer, one candidate a line. bash and zsh are asked
# through the function that the script defines, fish has a command for this.
ASK = {
    "bash": """
        source {script}
        COMP_LINE="$1"; COMP_POINT=${{#1}}; _mqctl mqctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compdef() {{ : }}
        _files() {{ : }}
        _describe() {{ print -rl -- "${{(@P)3}}" }}
        source {script}
        words=("${{(@s: :)1}}"); CURRENT=$#words; _mqctl
    """,
    "fish": """source {script}; complete -C "$argv[1]" """,
}
COMMAND = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}


@pytest.fixture(params=ASK)
def ask_shell(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[str]]:
    """What a real shell would offer, with a program `mqctl` on its path."""
    shell = shutil.which(request.param)
    if shell is None:
        pytest.skip(f"needs {request.param}")
    program = tmp_path / "mqctl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mqctl "$@"\n')
    program.chmod(0o755)
    script = ASK[request.param].format(script=REPOSITORY / "completions" / FILES[request.param])
    name = ["shell"] if request.param != "fish" else []  # $0, which fish has not

    def ask(line: str, **variables: str) -> list[str]:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            [shell, *COMMAND[request.param], script, *name, line],
            env={**os.environ, "HOME": str(tmp_path), "PATH": path, "PYTHONPATH": str(REPOSITORY), **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.stderr == ""
        return [candidate.partition("\t")[0].partition(":")[0] for candidate in ended.stdout.splitlines() if candidate]

    return ask


def test_a_real_shell(ask_shell: Callable[..., list[str]], cli: Cli, broker: OurBroker, topic: str) -> None:
    assert ask_shell("mqctl st") == ["standalone", "store"]
    cli.ok("topic", "update", topic)
    assert ask_shell(f"mqctl topic route {topic}", NAMESRV_ADDR=broker.namesrv) == [topic]
