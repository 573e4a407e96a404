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
    ?                      dropped, with its value if the next word is one: a flag that takes one from 5.x on

mqadmin never asks, so rows of commands that do end with --yes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqctl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Old:
    """`command`: our words. `flags`: by mqadmin's letter and long name, `"g groupName"`. `always`: added each time.
    `asks_for`: the one verb among its arguments that needs --yes. `instead`: by flags, the row to take where one of
    them is given."""

    command: str
    flags: Mapping[str, str]
    always: str = ""
    asks_for: str | None = None
    instead: Mapping[tuple[str, ...], Old] = field(default_factory=dict)


# What every command of mqadmin takes.
_EVERYWHERE: Final = {"n namesrvAddr": "--namesrv", "h help": "--help!"}


def translate(args: Sequence[str], nouns: Container[str]) -> list[str]:
    """Our command line for one of mqadmin's; any other as it is. Raises ConfigError for a command that is left out, a
    flag that mqadmin's command does not have, or that lacks its value."""
    if args and args[0].lower() == "help":
        return translate([*args[1:], "--help"], nouns)
    if not args or args[0].startswith("-") or (args[0] in nouns and not "".join(args[1:2]).startswith("-")):
        return list(args)  # without reading the rows: most runs end here
    from mqctl.commands.mqadmin import leftout
    from mqctl.commands.mqadmin.rows import ROWS

    old = ROWS.get(args[0].lower())
    if old is None:
        if about := leftout.about(args[0]):
            raise ConfigError(f"mqctl has no {args[0]}, which is about {about}", hint="see docs/mqadmin.md")
        return list(args)
    old = _row_for(old, args[1:])
    targets = _targets(old)
    # One of mqadmin's names is also one of our nouns. Ours has a verb there, or only -h.
    if args[0] in nouns and not (len(args) > 1 and args[1] in targets and args[1] not in ("-h", "--help")):
        return list(args)
    return _translate(args[0], old, targets, args[1:])


def _row_for(old: Old, words: Sequence[str]) -> Old:
    for flags, other in old.instead.items():
        if any(_is(word, flag) for word in words for flag in flags):
            return other
    return old


def _targets(old: Old) -> dict[str, str]:
    targets = {"--output": "--output"}  # ours; -o means something else in many of mqadmin's
    for flag, target in {**_EVERYWHERE, **old.flags}.items():
        targets |= dict.fromkeys(_names(flag), target)
    return targets


def _names(flag: str) -> list[str]:
    """Of a flag as rows have it; there are flags without a letter."""
    letter, _, long = flag.partition(" ")
    return [f"-{long}", f"--{long}", *([f"-{letter}"] if letter else [])]


def _translate(name: str, old: Old, targets: Mapping[str, str], words: Sequence[str]) -> list[str]:
    arguments: dict[str, str] = {}
    options: list[str] = []
    rest = deque(words)
    while rest:
        word = rest.popleft()
        flag, joined, value = _split(word, targets)
        target = targets.get(flag)
        if target is None:
            raise _unknown(name, old, word)
        if target.endswith("!"):
            options += [target[:-1]] if target != "!" else []
            continue
        if target == "?" and (not rest or rest[0].startswith("-")):
            continue
        if not joined:
            value = rest.popleft() if rest else ""
            if not value:
                raise ConfigError(f"the option {flag} of mqadmin's {name} needs a value")
        if target.isupper():
            arguments[target] = value
        elif target != "?":
            options += _option(target, value)
    given = _in_order(old, arguments)
    yes = ["--yes"] if old.asks_for in given[:1] else []
    return [*old.command.split(), *given, *options, *old.always.split(), *yes]


def _unknown(name: str, old: Old, word: str) -> ConfigError:
    from mqctl.commands.mqadmin import leftout

    for flag, reason in leftout.flags_of(name).items():
        if _is(word, flag):
            return ConfigError(f"mqctl leaves out {word} of mqadmin's {name}: {reason}")
    return ConfigError(f"mqadmin's {name} has no option {word}", hint=f"see `mqctl {old.command} --help`")


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


def _is(word: str, flag: str) -> bool:
    names = dict.fromkeys(_names(flag), "")
    return _split(word, names)[0] in names


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
