"""The terminal of `mqctl top`: asks the cluster every few seconds, draws, and obeys keys in between."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

from mqctl.client.admin import Admin
from mqctl.client.admin.overview import Overview, TopicRates, overview, topic_queues
from mqctl.commands.top.rows import broker_detail, lag_detail, rows_of, topic_detail
from mqctl.commands.top.state import Panel, State, keys_of
from mqctl.commands.top.view import picture
from mqctl.env import Environment
from mqctl.errors import MqError
from mqctl.figures import rate_text
from mqctl.output import Row
from mqctl.times import time_text

READ_BYTES: Final = 64
# After these the terminal has to be put back in order as well.
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class Screen:
    """Loop only. `run` returns when the user quits; the terminal is then as it was."""

    def __init__(self, env: Environment, admin: Admin, every: float) -> None:
        self._env = env
        self._admin = admin
        self._every = every
        self._state = State()
        self._seen: Overview | None = None
        self._rates = TopicRates()
        self._detail: Sequence[Row] = ()
        self._trouble: str | None = None
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        console = Console(file=self._env.stdout, no_color=not self._env.colored, highlight=False)
        loop = asyncio.get_running_loop()
        # Without `screen` Live would scroll; with `auto_refresh` it would draw from a thread of its own.
        with _keys_at_once(self._env.stdin.fileno()), Live(console=console, screen=True, auto_refresh=False) as live:
            loop.add_reader(self._env.stdin.fileno(), self._on_input)
            loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
            for number in ENDING:
                loop.add_signal_handler(number, self._end)
            asking = asyncio.create_task(self._ask_again_and_again())
            try:
                while not self._state.done:
                    live.update(self._picture(console.size.height), refresh=True)
                    await self._changed.wait()
                    self._changed.clear()
                    if asking.done():
                        asking.result()
            finally:
                asking.cancel()
                loop.remove_reader(self._env.stdin.fileno())
                for number in (signal.SIGWINCH, *ENDING):
                    loop.remove_signal_handler(number)
                await asyncio.gather(asking, return_exceptions=True)

    # -- asking -----------------------------------------------------------------------------------------

    async def _ask_again_and_again(self) -> None:
        try:
            while True:
                if not self._state.paused:
                    await self._ask()
                    self._changed.set()
                await asyncio.sleep(self._every)
        finally:
            self._changed.set()

    async def _ask(self) -> None:
        try:
            self._seen = await overview(self._admin, int(self._env.clock() * 1000), self._rates)
            await self._look_into()
            self._trouble = None
        except MqError as error:
            self._trouble = error.message

    async def _look_into(self) -> None:
        line, seen = self._state.detail, self._seen
        if line is None or seen is None:
            return
        if self._state.panel is Panel.BROKERS:
            self._detail = broker_detail(seen, line)
        elif self._state.panel is Panel.LAGS:
            self._detail = lag_detail(seen, line)
        else:
            queues = await topic_queues(self._admin, line["topic"])
            if self._state.detail is line:  # else the user has gone elsewhere meanwhile
                self._detail = topic_detail(queues)

    # -- keys -------------------------------------------------------------------------------------------

    def _on_input(self) -> None:
        data = os.read(self._env.stdin.fileno(), READ_BYTES)
        if not data:
            self._end()  # the terminal is gone
        for key in keys_of(data):
            before = self._state.detail
            self._state.press(key, self._shown())
            if self._state.detail is not before:
                self._state.line = 0
                self._detail = ()
                self._spawn_look()
        self._changed.set()

    def _spawn_look(self) -> None:
        """What is behind a line is shown at once, not at the next round."""

        async def look() -> None:
            line = self._state.detail
            try:
                await self._look_into()
            except MqError as error:
                if self._state.detail is line:
                    self._trouble = error.message
            self._changed.set()

        self._looking = asyncio.create_task(look())

    def _end(self) -> None:
        self._state.done = True
        self._changed.set()

    # -- drawing ----------------------------------------------------------------------------------------

    def _rows(self) -> dict[Panel, list[Row]]:
        found = rows_of(self._seen) if self._seen is not None else dict[Panel, list[Row]]()
        return {panel: self._state.sorted(panel, found.get(panel, [])) for panel in Panel}

    def _shown(self) -> Sequence[Row]:
        return self._detail if self._state.detail is not None else self._rows()[self._state.panel]

    def _picture(self, height: int) -> RenderableType:
        return picture(self._state, self._rows(), self._detail, self._status(), height)

    def _status(self) -> str:
        now = time_text(int(self._env.clock() * 1000))[:19]
        if self._trouble is not None:
            return f"mqctl top  {now}  {self._trouble}"
        if self._seen is None:
            return f"mqctl top  {now}  asking {'; '.join(self._admin.name_server_addresses)}"
        brokers = [each for each in self._seen.brokers if each.error is None]
        rates = rate_text(sum(each.in_tps for each in brokers)), rate_text(sum(each.out_tps for each in brokers))
        return f"mqctl top  {now}  in {rates[0]}/s  out {rates[1]}/s" + ("  paused" if self._state.paused else "")


@contextmanager
def _keys_at_once(descriptor: int) -> Iterator[None]:
    """Keys come one by one and are not shown; Ctrl-C is a key like others."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        settings = termios.tcgetattr(descriptor)
        settings[3] &= ~termios.ISIG
        termios.tcsetattr(descriptor, termios.TCSADRAIN, settings)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
