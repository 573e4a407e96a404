"""The screen of `mqctl top` without a terminal: answers and keys in the order of the test."""

from __future__ import annotations

import asyncio
import os

from mqctl.client.admin import Admin
from mqctl.client.admin.overview import Overview, TopicFigures
from mqctl.commands.top.screen import Screen
from mqctl.env import Environment
from mqctl.remoting.bodies import TopicStatsTable
from tests.aio import in_loop
from tests.cli.running import Cli
from tests.peers.ours import OurBroker


class Halting(Admin):
    """Does not tell of one topic before it may."""

    def __init__(self, namesrv: str, topic: str) -> None:
        super().__init__(namesrv)
        self._topic = topic
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def topic_stats(self, address: str, topic: str) -> TopicStatsTable:
        if topic == self._topic:
            self.asked.set()
            await self.may.wait()
        return await super().topic_stats(address, topic)


@in_loop
async def test_an_answer_that_comes_late_is_not_shown_for_another_line(cli: Cli, broker: OurBroker, topic: str) -> None:
    slow, quick = f"{topic}-1", f"{topic}-2"
    for queues, name in enumerate((slow, quick), 1):
        await asyncio.to_thread(cli.ok, "topic", "update", name, "-w", str(queues), "-r", str(queues))
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as keys:
        async with Halting(broker.namesrv, slow) as admin:
            screen = Screen(Environment(stdin=stdin), admin, 2.0)
            screen._seen = Overview([], [TopicFigures(slow, 2.0, 0.0), TopicFigures(quick, 1.0, 0.0)], [])

            def press(pressed: bytes) -> asyncio.Task[None]:
                keys.write(pressed)
                screen._on_input()
                assert screen._looking is not None
                return screen._looking

            first = press(b"2\r")
            await admin.asked.wait()
            press(b"\x1b")
            await press(b"j\r")
            assert len(screen._detail) == 2
            admin.may.set()
            await first
            assert len(screen._detail) == 2
