"""The screen of `mqctl quickstart`: a table that follows the figures, or a line a second where there is no terminal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqctl.commands.common import Session
from mqctl.commands.quickstart.scene import CONSUMER_GROUP, PRODUCER_GROUP, TOPIC, Scene, scene
from mqctl.env import Environment

if TYPE_CHECKING:
    from rich.table import Table

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SCREEN_SECONDS: Final = 0.5
LINE_SECONDS: Final = 1.0

TRY_NEXT: Final = """\
Try in a second terminal, while this runs:
  mqctl{namesrv} lag --all
  mqctl{namesrv} consumer status {group}
  mqctl{namesrv} msg tail {topic} --max 5
  mqctl{namesrv} msg send {topic} 'hello' --key mine
  mqctl{namesrv} msg query {topic} --key mine
  mqctl{namesrv} top
Ctrl-C stops everything{afterwards}."""


async def show(session: Session, folder: Path, *, rate: int, seconds: float | None, kept: bool) -> None:
    """Returns when the time is over or a signal came, and everything has stopped."""
    env = session.env
    with _told_to_end() as ended:
        async with scene(folder, rate) as (running, admin):
            broker = running.servers.broker
            where = f"name server {running.namesrv}, broker {broker.broker_name} {broker.address}, store {folder}"
            with _screen(env, where, _try_next(session, running, folder if kept else None)) as draw:
                loop = asyncio.get_running_loop()
                end = None if seconds is None else loop.time() + seconds
                every = SCREEN_SECONDS if env.on_terminal else LINE_SECONDS
                while not ended.is_set() and (end is None or loop.time() < end):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(ended.wait(), every if end is None else min(every, end - loop.time()))
                    await running.measure_lag(admin)
                    draw(running)
    _say(env, _goodbye(running, folder if kept else None))


@contextlib.contextmanager
def _told_to_end() -> Iterator[asyncio.Event]:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _screen(env: Environment, where: str, try_next: str) -> Iterator[Callable[[Scene], None]]:
    if not env.on_terminal:
        _say(env, f"quickstart: {where}\n{try_next}")
        yield lambda running: _say(env, line(running))
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(file=env.stdout, no_color=not env.colored, highlight=False)
    # With `auto_refresh` it would draw from a thread of its own.
    with Live(console=console, auto_refresh=False) as live:

        def draw(running: Scene) -> None:
            live.update(Group(Text(where), Text(), _table(running), Text(), Text(try_next)), refresh=True)

        yield draw


# -- figures as text ------------------------------------------------------------------------------------


def line(running: Scene) -> str:
    parts = [f"sent {running.sent}"]
    if running.failed:
        parts.append(f"failed {running.failed}")
    parts += [f"{each.name} {each.consumed} ({each.queues} queues, lag {each.lag})" for each in running.members]
    return "  ".join([*parts, _latency(running)])


def _latency(running: Scene) -> str:
    return f"end to end p50 {_ms(running.latency_ms(0.5))} p99 {_ms(running.latency_ms(0.99))}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _table(running: Scene) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption=_latency(running), caption_justify="left", caption_style="")
    for title in ("CLIENT", "GROUP", "MESSAGES", "QUEUES", "LAG"):
        table.add_column(title, justify="left" if title in ("CLIENT", "GROUP") else "right", min_width=9)
    sent = f"{running.sent:,}" + (f" ({running.failed:,} failed)" if running.failed else "")
    table.add_row("producer", PRODUCER_GROUP, sent, "-", "-")
    for each in running.members:
        table.add_row(each.name, CONSUMER_GROUP, f"{each.consumed:,}", str(each.queues), f"{each.lag:,}")
    return table


def _try_next(session: Session, running: Scene, kept: Path | None) -> str:
    namesrv = "" if running.namesrv == session.name_servers else f" -n {running.namesrv}"
    afterwards = f"; the messages stay in {kept}" if kept is not None else " and leaves nothing behind"
    return TRY_NEXT.format(namesrv=namesrv, topic=TOPIC, group=CONSUMER_GROUP, afterwards=afterwards)


def _goodbye(running: Scene, kept: Path | None) -> str:
    consumed = sum(each.consumed for each in running.members)
    store = f" --store {kept}" if kept is not None else ""
    return f"sent {running.sent}, consumed {consumed}. Servers to keep: mqctl standalone{store}"


def _say(env: Environment, text: str) -> None:
    print(text, file=env.stdout, flush=True)
