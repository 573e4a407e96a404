"""`mqctl quickstart`: servers, a topic, a producer and two consumers at work, on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mqctl.commands.common import session_of, single

app = single()


@app.command()
def quickstart(
    ctx: typer.Context,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="DIR", help="Keep the messages here; else in a folder that goes at the end."),
    ] = None,
    rate: Annotated[int, typer.Option("--rate", min=1, max=5000, metavar="N", help="Messages a second.")] = 50,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, metavar="N", help="End by itself; else with Ctrl-C.")
    ] = None,
) -> None:
    """See it at work: servers, a topic, a producer and two consumers, with live numbers and commands to try next.

    Everything runs in this one process, on 127.0.0.1 and the usual ports, or on free ones if those are taken. Ctrl-C
    stops it and removes what it made, except a folder that was named with --store.

    \b
    Examples:
      mqctl quickstart
      mqctl quickstart --rate 500 --seconds 20
      mqctl quickstart --store /tmp/mq
    """
    from mqctl import logs
    from mqctl.background import fastest_loop
    from mqctl.commands.quickstart.show import show
    from mqctl.server.run import raise_descriptor_limit

    session = session_of(ctx)
    logs.configure(None)
    raise_descriptor_limit()
    with _folder(store) as folder:
        import asyncio

        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(show(session, folder, rate=rate, seconds=seconds, kept=store is not None))


@contextmanager
def _folder(named: Path | None) -> Iterator[Path]:
    if named is not None:
        yield named.absolute()
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mqctl-quickstart-") as folder:
        yield Path(folder)
