"""The pages about the command line, made from the commands themselves: `python -m mqctl.manual docs` writes them.

A page that is written by hand is wrong after the next change of an option. A test says when these are not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mqctl.cli import NOUNS, load
from mqctl.commands.common import AdminCommand
from mqctl.commands.mqadmin import leftout
from mqctl.commands.mqadmin.rows import NAMES
from mqctl.commands.mqadmin.translate import Old

# What every command that asks a cluster takes; told once, at the top.
EVERYWHERE: Final = ("namesrv", "context", "output", "timeout", "help")

COMMANDS_HEAD: Final = """\
# The commands

Made by `make docs` from the commands themselves; `mqctl COMMAND --help` says the same.

What all commands that ask a cluster take, before or after their words:

- `-n ADDR[;ADDR]`, `--namesrv`: name servers; without it NAMESRV_ADDR, the current context (`mqctl context`), or
  127.0.0.1:9876
- `--context NAME`: the cluster of this name
- `-o table|wide|json|yaml|csv`, `--output`: how to print data
- `--timeout SECONDS`: how long to wait for each answer; 5 if not given

Data goes to stdout, everything else to stderr. What the exit status says:

| status | meaning |
|---|---|
| 0 | done |
| 1 | refused: by a server, by whoever was asked, or the work failed here |
| 2 | wrong usage |
| 3 | not found |
| 4 | no connection, or no answer in time |
| 5 | done in part; what is missing is told |
| 6 | no permission |
| 7 | the server is too old for the request |
| 8 | all was found out, and is worse than the command line allows |
"""

MQADMIN_HEAD: Final = """\
# From mqadmin to mqctl

Made by `make docs` from the table that mqctl itself uses. mqadmin's commands work under their old names, with their
short and long flags and without regard to case: replace `mqadmin` by `mqctl` in a script. What differs:

- data is printed in mqctl's tables, not in mqadmin's columns; `--output json` works behind the old names as well, while
  `-o` has its old meaning there
- the exit status is not 0 when something failed; errors are one line on stderr, without a stack
- `updateTopic`, `updateSubGroup` and `updateAclConfig` change what is given and leave the rest; mqadmin resets it to
  its defaults
- without `-f` the export commands print to stdout, mqadmin writes below /tmp/rocketmq/export
- `startMonitoring` prints what begins to go wrong and what is well again; mqadmin writes a log
- secrets of accounts are shown with `acl account list --show-secrets` only
- the `queryMsgBy...` commands show the body instead of a file that holds it, and leave it to `msg track` to say who has
  consumed the message
- `printMsg` and `printMsgByQueue` print messages with their bodies whatever `-p` and `-d` say, where mqadmin's
  `printMsgByQueue` prints nothing without `-p true`; and they keep to `-b` and `-e`, where mqadmin prints some more
- `queryMsgByUniqueKey -a` shows all messages with the id, as 5.x does; 4.9.7 shows the oldest, with `-a` and without
- times in milliseconds have their 13 digits, or are 0
- `statsAll` leaves out the topics that brokers make for themselves
- `clusterRT` measures once unless `-i` says how often, `brokerConsumeStats` has no use for `-t`, and `checkMsgSendRT`
  sends one message more than it counts
- nothing is asked, as with mqadmin; under the new names commands that destroy something ask first, or need `--yes`

| mqadmin | mqctl | flags |
|---|---|---|
"""

MQADMIN_END: Final = """
These are all of mqadmin 4.9.7, and those of 5.x that mean something to a broker of the 4.9 level. The others are left
out, and mqctl says so:

| mqadmin 5.x | what it is about |
|---|---|
"""

MQADMIN_FLAGS: Final = """
So are these flags:

| mqadmin 5.x | why |
|---|---|
"""

# All that mqadmin 4.9.7 has, checked by a test.
MQADMIN_4_9_7: Final = """
addWritePerm allocateMQ brokerConsumeStats brokerStatus checkMsgSendRT cleanExpiredCQ cleanUnusedTopic
cloneGroupOffset clusterAclConfigVersion clusterList clusterRT consumeMessage consumerConnection consumerProgress
consumerStatus deleteAclConfig deleteExpiredCommitLog deleteKvConfig deleteSubGroup deleteTopic exportConfigs
exportMetadata exportMetrics getAclConfig getBrokerConfig getConsumerConfig getNamesrvConfig printMsg printMsgByQueue
producer producerConnection queryCq queryMsgById queryMsgByKey queryMsgByOffset queryMsgByUniqueKey queryMsgTraceById
resetOffsetByTime sendMessage sendMsgStatus skipAccumulatedMessage startMonitoring statsAll topicClusterList topicList
topicRoute topicStatus updateAclConfig updateBrokerConfig updateGlobalWhiteAddr updateKvConfig updateNamesrvConfig
updateOrderConf updateSubGroup updateTopic updateTopicPerm wipeWritePerm
"""


def commands_page() -> str:
    parts = [COMMANDS_HEAD]
    for noun in NOUNS:
        parts.append(f"\n## {noun}\n")
        parts += [_command_text(words, command) for words, command in _commands(load(noun), (noun,))]
    return "".join(parts)


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The command and all below it, with the words that call it."""
    if command.hidden:
        return
    if command.callback is not None:
        yield words, command
    for name, verb in getattr(command, "commands", {}).items():
        yield from _commands(verb, (*words, name))


def _command_text(words: tuple[str, ...], command: Any) -> str:
    text, marker, examples = (command.help or "").replace("\b\n", "").partition("\nExample")
    usage = " ".join(["mqctl", *words])
    lines = [f"\n### {usage}\n", f"\n{text.strip()}\n"]
    options = [line for param in command.params if (line := _param_line(command, param))]
    if options:
        lines.append("\n" + "".join(options))
    if marker:
        shown = examples.partition("\n")[2].rstrip()
        lines.append("\n```\n" + "".join(f"{line.strip()}\n" for line in shown.splitlines()) + "```\n")
    return "".join(lines)


def _param_line(command: Any, param: Any) -> str:
    if getattr(param, "hidden", False) or (isinstance(command, AdminCommand) and param.name in EVERYWHERE):
        return ""
    help = (getattr(param, "help", None) or "").strip()
    if param.param_type_name == "argument":
        name = param.metavar or param.human_readable_name
        return f"- `{name}`{': ' + help if help else ''}\n"
    names = ", ".join([*param.opts, *param.secondary_opts])
    value = "" if param.is_flag else f" {param.metavar or _type_text(param)}"
    return f"- `{names}{value}`{': ' + help if help else ''}\n"


def _type_text(param: Any) -> str:
    choices = getattr(param.type, "choices", None)
    return "|".join(str(getattr(choice, "value", choice)) for choice in choices) if choices else "VALUE"


def mqadmin_page() -> str:
    rows = [_mqadmin_row(name, old) for name, old in sorted(NAMES.items(), key=lambda item: item[0].lower())]
    commands = [f"| {', '.join(names.split())} | {about} |\n" for about, names in leftout.COMMANDS.items()]
    flags = [
        f"| {name} {_flag(flag)} | {why} |\n" for name, whys in leftout.FLAGS.items() for flag, why in whys.items()
    ]
    return "".join([MQADMIN_HEAD, *rows, MQADMIN_END, *commands, MQADMIN_FLAGS, *flags])


def _mqadmin_row(name: str, old: Old) -> str:
    flags = [f"{_flag(flag)} {_target_text(target)}" for flag, target in old.flags.items()]
    always = f" {old.always}" if old.always else ""
    row = f"| {name} | `mqctl {old.command}{always}` | {', '.join(flags)} |\n"
    others = [_mqadmin_row(f"{name} {' or '.join(map(_flag, given))}", other) for given, other in old.instead.items()]
    return row + "".join(others)


def _flag(flag: str) -> str:
    """Of a flag as rows have it: its letter, or the long name of one without."""
    letter, _, long = flag.partition(" ")
    return f"`-{letter or long}`"


def _target_text(target: str) -> str:
    text = target.rstrip("!=?").replace("&", " ").strip()
    return f"`{text}`" if text else "ignored"


PAGES: Final = {"commands.md": commands_page, "mqadmin.md": mqadmin_page}


def main(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
