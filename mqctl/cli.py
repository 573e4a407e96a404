"""The command line put together: which nouns there are, and how errors leave the program.

A noun's module is imported when the noun is used. That keeps `mqctl --help` and every small command free of
the imports of all the others; a noun's one-line help stands here for the same reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand

from mqctl.commands.common import AdminGroup, Session, noun
from mqctl.commands.mqadmin.translate import translate
from mqctl.env import SHELL_VARIABLE, Environment
from mqctl.errors import MqError
from mqctl.exit import ExitCode, exit_code

PROGRAM: Final = "mqctl"

# Noun: module below mqctl.commands, one line of help.
NOUNS: Final = {
    "quickstart": (
        "quickstart",
        "See it at work: servers, a topic, a producer and two consumers, with live numbers and commands to try next.",
    ),
    "standalone": ("standalone", "Run a name server and a broker in one process, to try things out."),
    "namesrv": ("namesrv", "Run a name server; show and change settings of running ones."),
    "broker": ("broker", "Run a broker; show, change and drain running ones."),
    "cluster": ("cluster", "Show what runs, how busy it is, and whether it is well."),
    "topic": ("topic", "Create, change and describe topics."),
    "consumer": ("consumer", "Show and change consumer groups, and see how far they are."),
    "producer": ("producer", "List producers that are connected."),
    "offset": ("offset", "Show and move the offsets of consumer groups."),
    "lag": ("lag", "Show which consumer groups are behind, by how many messages and for how long, the worst first."),
    "top": (
        "top",
        "Watch a cluster in the whole terminal: brokers, the busiest topics, the groups that are behind the most.",
    ),
    "monitor": (
        "monitor",
        "Look after a cluster, and write a line when something begins to go wrong or is well again.",
    ),
    "acl": ("acl", "Show and change accounts, and addresses that need none."),
    "undo": ("undo", "Put back what a command of mine changed: the last one, or the one with this number."),
    "context": ("context", "Give clusters names, and choose the one that commands are for."),
    "msg": ("msg", "Send messages, find them, and follow topics."),
    "dlq": ("dlq", "List dead letters, show them, send them again, export them."),
    "replay": ("replay", "Send what a topic holds into a topic once more, of the same cluster or another."),
    "delay": ("delay", "List delayed messages and take them back."),
    "store": ("store", "Look into a store folder, check it, repair it, move messages; no broker is needed."),
    "analyze": ("analyze", "Ask the stores of one broker or of a whole cluster, with Spark."),
    "doctor": (
        "doctor",
        "Look for what is wrong with this machine, a broker's configuration and a cluster, and say how to mend it.",
    ),
    "shutdown": ("shutdown", "Stop name servers or brokers that run on this machine."),
    "completion": ("completion", "Print a shell's completion script."),
    "version": ("version", "Print the version."),
}


class LazyGroup(AdminGroup):
    """`commands` holds a placeholder per noun, enough for help, completion and "did you mean"."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = {
            name: TyperCommand(name, short_help=help, rich_markup_mode=None) for name, (_, help) in NOUNS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, placeholder if name is None else load(name), rest


def load(name: str) -> Any:
    """The real command of a noun."""
    module = importlib.import_module(f"mqctl.commands.{NOUNS[name][0]}")
    command = typer.main.get_command(module.app)
    command.name = name
    return command


def _root() -> None:
    """A RocketMQ-compatible broker, name server and operations tool.

    \b
    Try it:
      mqctl quickstart                      all of it at work, on one screen; or by hand:
      mqctl standalone                      in one terminal, then in another
      mqctl topic update orders
      mqctl msg send orders 'hello'
      mqctl msg tail orders --from earliest
    """


def build() -> Any:
    """The root command."""
    app = noun(cls=LazyGroup)
    app.callback()(_root)
    return typer.main.get_command(app)


def run(args: Sequence[str], env: Environment | None = None) -> int:
    """Runs one command line and returns the exit status."""
    session = Session(env or Environment())
    if SHELL_VARIABLE in session.env.variables:
        from mqctl.completion import answer

        answer(build(), session, session.env)
        return ExitCode.DONE
    try:
        build().main(args=translate(args, NOUNS), prog_name=PROGRAM, obj=session)
    except MqError as error:
        session.env.report(error.message, error.hint)
        return exit_code(error)
    except SystemExit as ended:  # typer's way out, also after success
        return ended.code if isinstance(ended.code, int) else ExitCode.DONE
    return ExitCode.DONE
