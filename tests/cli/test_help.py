"""Every command explains itself, with an example, and the lazily loaded ones agree with the list of nouns."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from mqctl.cli import NOUNS, build, load
from mqctl.commands.common import Session
from mqctl.exit import ExitCode
from tests.cli.running import Cli


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The command and all below it, with the words that call it."""
    if command.callback is not None and not command.hidden:
        yield words, command
    for name, verb in getattr(command, "commands", {}).items():
        yield from commands(verb, (*words, name))


ALL = [item for name in NOUNS for item in commands(load(name), (name,))]
IDS = [" ".join(words) for words, _ in ALL]


@pytest.mark.parametrize(("words", "command"), ALL, ids=IDS)
def test_help_has_an_example_of_this_command(words: tuple[str, ...], command: Any) -> None:
    _, marker, examples = command.help.partition("\nExample")
    assert marker, f"{' '.join(words)} has no example"
    assert f"mqctl {' '.join(words)}" in examples


@pytest.mark.parametrize(("words", "command"), ALL, ids=IDS)
def test_examples_parse(words: tuple[str, ...], command: Any) -> None:
    """Each example is a command line that the parser takes; nothing is run."""
    lines = [line.strip() for line in command.help.partition("\nExample")[2].splitlines()]
    calls = [line[line.index("mqctl ") :] for line in lines if "mqctl " in line]
    assert calls
    for call in calls:
        args = shlex.split(call.partition(" > ")[0].rstrip(")"))[1:]
        root = build()
        context = root.make_context("mqctl", list(args), obj=Session())
        name, noun, rest = root.resolve_command(context, args)
        while hasattr(noun, "commands") and rest and not rest[0].startswith("-"):
            name, noun, rest = noun.resolve_command(context, rest)
        noun.make_context(name, rest, parent=context)


@pytest.mark.parametrize("noun", NOUNS)
def test_the_list_of_nouns_says_what_the_noun_says(noun: str) -> None:
    assert load(noun).help.splitlines()[0] == NOUNS[noun][1]


def test_every_module_of_commands_is_reachable() -> None:
    for module, _ in NOUNS.values():
        assert importlib.import_module(f"mqctl.commands.{module}").app


@pytest.mark.parametrize("words", [(), *(words for words, _ in ALL), ("topic",), ("msg",)])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_works_everywhere(offline: Cli, words: tuple[str, ...], flag: str) -> None:
    ended = offline.ok(*words, flag)
    assert ended.out.startswith("Usage: mqctl")
    assert ended.err == ""


def test_no_arguments_show_the_help(offline: Cli) -> None:
    ended = offline()
    assert ended.status == ExitCode.USAGE
    assert "standalone" in ended.out + ended.err


def test_a_mistyped_command_is_guessed(offline: Cli) -> None:
    ended = offline("tpoic", "list")
    assert ended.status == ExitCode.USAGE
    assert "No such command 'tpoic'. Did you mean 'topic'?" in ended.err


def test_version(offline: Cli) -> None:
    assert offline.ok("version").out.startswith("mqctl 0.")
