"""mqadmin's command lines, so that an operator's scripts work with `mqadmin` replaced by `mqctl`.

A row says which command of ours does it and what becomes of each flag. mqadmin's names are matched without regard to
case, a flag by its letter or its long name; `-r8` is `-r 8`. What becomes of a flag, by how it is written in a row:

    GROUP                  its value is an argument; arguments come in the order of the row
    KEY=                   the same, joined with the next one: key=value
    --topic                an option with the value
    --jstack!              mqadmin's flag has no value, and becomes this option
    --enable/--disable     mqadmin's value is true, or else false; either side may be empty
    --cluster&--topics     the option with the value, and another one besides
    (nothing, or ! alone)  dropped, with its value or without

mqadmin never asks, so rows of commands that do end with --yes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqctl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Old:
    """`command`: our words. `flags`: by mqadmin's letter and long name, `"g groupName"`. `always`: added each time.
    `asks_for`: the one verb among its arguments that needs --yes."""

    command: str
    flags: Mapping[str, str]
    always: str = ""
    asks_for: str | None = None


# What every command of mqadmin takes.
_EVERYWHERE: Final = {"n namesrvAddr": "--namesrv", "h help": "--help!"}


def translate(args: Sequence[str], nouns: Container[str]) -> list[str]:
    """Our command line for one of mqadmin's; any other as it is. Raises ConfigError for a flag that mqadmin's command
    does not have, or that lacks its value."""
    if not args or args[0].startswith("-") or (args[0] in nouns and not "".join(args[1:2]).startswith("-")):
        return list(args)  # without reading the rows: most runs end here
    from mqctl.commands.mqadmin.rows import ROWS

    old = ROWS.get(args[0].lower())
    if old is None:
        return list(args)
    targets = _targets(old)
    # One of mqadmin's names is also one of our nouns. Ours has a verb there, or only -h.
    if args[0] in nouns and not (len(args) > 1 and args[1] in targets and args[1] not in ("-h", "--help")):
        return list(args)
    return _translate(args[0], old, targets, args[1:])


def _targets(old: Old) -> dict[str, str]:
    names = {"--output": "--output"}  # ours; -o means something else in many of mqadmin's
    for flag, target in {**_EVERYWHERE, **old.flags}.items():
        letter, _, long = flag.partition(" ")
        names |= dict.fromkeys((f"-{letter}", f"-{long}", f"--{long}"), target)
    return names


def _translate(name: str, old: Old, targets: Mapping[str, str], words: Sequence[str]) -> list[str]:
    arguments: dict[str, str] = {}
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, joined, value = _split(word, targets)
        target = targets.get(flag)
        if target is None:
            raise ConfigError(f"mqadmin's {name} has no option {word}", hint=f"see `mqctl {old.command} --help`")
        if target.endswith("!"):
            options += [target[:-1]] if target != "!" else []
            continue
        if not joined:
            value = next(rest, "")
            if not value:
                raise ConfigError(f"the option {flag} of mqadmin's {name} needs a value")
        if target.isupper():
            arguments[target] = value
        else:
            options += _option(target, value)
    given = _in_order(old, arguments)
    yes = ["--yes"] if old.asks_for in given[:1] else []
    return [*old.command.split(), *given, *options, *old.always.split(), *yes]


def _in_order(old: Old, arguments: Mapping[str, str]) -> list[str]:
    words: list[str] = []
    key = ""
    for target in old.flags.values():
        if target in arguments and target.endswith("="):
            key = f"{arguments[target]}="
        elif target in arguments:
            words.append(key + arguments[target])
            key = ""
    return words


def _split(word: str, targets: Mapping[str, str]) -> tuple[str, bool, str]:
    """A flag, whether its value is in the same word, and that value."""
    if word.startswith("--"):
        flag, joined, value = word.partition("=")
        return flag, bool(joined), value
    if word not in targets and word[:2] in targets:
        return word[:2], True, word[2:]
    return word, False, ""


def _option(target: str, value: str) -> list[str]:
    """Joined with "=", since a value may begin with a dash."""
    if "/" in target:
        # Java takes anything but "true" as false.
        yes, no = target.split("/")
        chosen = yes if value.strip().lower() == "true" else no
        return [chosen] if chosen else []
    option, _, more = target.partition("&")
    return [*([f"{option}={value}"] if option else []), *more.split()]
