"""`--watch`: the same question again and again, over the same connections."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from mqctl.commands.common import Session
from mqctl.errors import MqError

if TYPE_CHECKING:
    from mqctl.client.admin import Admin

T = TypeVar("T")

_HOME_AND_CLEAR: Final = "\x1b[H\x1b[2J"

WatchOption = Annotated[
    float | None,
    typer.Option("--watch", min=0.1, metavar="SECONDS", help="Ask again every so many seconds, until Ctrl-C."),
]


def watch(
    session: Session, every: float | None, work: Callable[[Admin], Awaitable[T]], show: Callable[[T], None]
) -> None:
    """Asks and shows once, or with `every` until interrupted. An error then is told and the next round comes; an exit
    status that `show` would end with means nothing, as the command goes on."""
    if every is None:
        show(session.ask(work))
        return

    async def rounds(admin: Admin) -> None:
        import asyncio

        while True:
            try:
                answer = await work(admin)
                if session.env.on_terminal:
                    session.env.stdout.write(_HOME_AND_CLEAR)
                with contextlib.suppress(typer.Exit):
                    show(answer)
            except MqError as error:
                session.env.report(error.message, error.hint)
            await asyncio.sleep(every)

    try:
        session.ask(rounds)
    except KeyboardInterrupt:
        raise typer.Exit from None
