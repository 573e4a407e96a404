"""What commands share: the session they run in, and the options that stand before or after any noun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_params_convertors_ctx_param_name_from_function

from mqctl.env import Environment
from mqctl.output import Column, Format, Output, Row

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.remoting.signing import Credentials

T = TypeVar("T")

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"
DEFAULT_TIMEOUT_S: Final = 5.0  # that of RocketMQ's admin tools

# For every typer application of ours.
_SETTINGS: Final[dict[str, Any]] = {
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "rich_markup_mode": None,  # importing rich would double the time that --help takes
    "pretty_exceptions_enable": False,
    "add_completion": False,  # see mqctl.completion
}


@dataclass(slots=True)
class Session:
    """One run of the program: its surroundings, and what the options in front of the command said."""

    env: Environment = field(default_factory=Environment)
    namesrv: str | None = None
    context: str | None = None
    output: Format | None = None
    timeout: float = DEFAULT_TIMEOUT_S

    @property
    def name_servers(self) -> str:
        """See mqctl.contexts for where they may come from."""
        if self.namesrv is not None:
            return self.namesrv
        from mqctl.contexts import name_servers

        return name_servers(self.env.variables, self.context) or DEFAULT_NAMESRV

    @property
    def credentials(self) -> Credentials | None:
        """Who this run is for brokers with access control. Raises ConfigError for half of it."""
        from mqctl.credentials import credentials_of

        return credentials_of(self.env.variables)

    def print_rows(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        Output(self.env, self.output).rows(columns, rows)

    def stream(self, columns: Sequence[Column], line: Callable[[Row], str]) -> Callable[[Row], None]:
        return Output(self.env, self.output).stream(columns, line)

    def ask(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """Runs `work` with an Admin for this session's name servers, on a loop of its own."""
        import asyncio

        from mqctl.client.admin import Admin

        async def run() -> T:
            async with Admin(self.name_servers, timeout=self.timeout, credentials=self.credentials) as admin:
                return await work(admin)

        return asyncio.run(run())


def session_of(ctx: typer.Context) -> Session:
    session: Session = ctx.obj
    return session


# -- options every noun and every command takes ---------------------------------------------------------
#
# They are added by the classes below, so that no command repeats them. Whichever stands last on the command
# line wins: an outer command is parsed first, and an option that was not given changes nothing.


def _take_namesrv(ctx: typer.Context, value: str | None) -> None:
    if value is not None:
        session_of(ctx).namesrv = value


def _take_context(ctx: typer.Context, value: str | None) -> None:
    if value is not None:
        session_of(ctx).context = value


def _take_output(ctx: typer.Context, value: Format | None) -> None:
    if value is not None:
        session_of(ctx).output = value


def _take_timeout(ctx: typer.Context, value: float | None) -> None:
    if value is not None:
        session_of(ctx).timeout = value


NamesrvOption = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        callback=_take_namesrv,
        expose_value=False,
        help=f"Name servers. Without it: the variable NAMESRV_ADDR, the current context, {DEFAULT_NAMESRV}.",
    ),
]


def complete_contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    from mqctl.contexts import load

    return [name for name in load(session_of(ctx).env.variables).name_servers if name.startswith(incomplete)]


ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        callback=_take_context,
        expose_value=False,
        autocompletion=complete_contexts,
        help="The cluster of this name (see `mqctl context`); also the variable MQCTL_CONTEXT.",
    ),
]
OutputOption = Annotated[
    Format | None,
    typer.Option("-o", "--output", callback=_take_output, expose_value=False, help="How to print data."),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.001,
        callback=_take_timeout,
        expose_value=False,
        help=f"How long to wait for each answer; {DEFAULT_TIMEOUT_S:g} if not given.",
    ),
]


def _everywhere(
    namesrv: NamesrvOption = None,
    context: ContextOption = None,
    output: OutputOption = None,
    timeout: TimeoutOption = None,
) -> None:
    """Never called: its signature declares the options."""


def _only_namesrv(namesrv: NamesrvOption = None) -> None:
    """The same for commands that print nothing but a line, such as those that run a server."""


def _only_output(output: OutputOption = None) -> None:
    """The same for commands that ask nobody."""


def parameters(declared_by: Any) -> list[Any]:
    """The options that the signature of a function declares, for commands that share them."""
    # Rebuilt for every command: a parameter object belongs to one.
    return list(get_params_convertors_ctx_param_name_from_function(declared_by)[0])


class AdminCommand(TyperCommand):
    """A command that asks a cluster and prints what it learned."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **attrs: Any) -> None:
        super().__init__(name, params=[*(params or ()), *parameters(_everywhere)], **attrs)


class AdminGroup(TyperGroup):
    """A noun."""

    def __init__(self, *, params: list[Any] | None = None, **attrs: Any) -> None:
        super().__init__(params=[*(params or ()), *parameters(_everywhere)], **attrs)


class LocalCommand(TyperCommand):
    """A command that looks at files of this machine."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **attrs: Any) -> None:
        super().__init__(name, params=[*(params or ()), *parameters(_only_output)], **attrs)


class LocalGroup(TyperGroup):
    """A noun with such commands."""

    def __init__(self, *, params: list[Any] | None = None, **attrs: Any) -> None:
        super().__init__(params=[*(params or ()), *parameters(_only_output)], **attrs)


class ServerGroup(TyperGroup):
    """A noun that is also a server: without a verb it runs one."""

    def __init__(self, *, params: list[Any] | None = None, **attrs: Any) -> None:
        super().__init__(params=[*(params or ()), *parameters(_only_namesrv)], **attrs)


def single() -> typer.Typer:
    """The typer application of a noun that is one command without verbs."""
    return typer.Typer(**_SETTINGS)


def noun(help: str | None = None, *, cls: type[TyperGroup] = AdminGroup, runs: bool = False) -> typer.Typer:
    """The typer application of a noun. `runs`: it also does something without a verb, and its callback's
    docstring is the help."""
    settings = _SETTINGS if help is None else {**_SETTINGS, "help": help}
    return typer.Typer(cls=cls, no_args_is_help=not runs, invoke_without_command=runs, **settings)
