"""``python -m tests.soak.worker JSON``: one process with its share of the clients. The end of stdin is the curtain."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from mqctl.background import fastest_loop

from .cast import Task, share
from .clients import Stage, first_of, play
from .ledger import Ledger

FLUSH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Order:
    folder: str
    worker: int
    workers: int
    clients: int
    namesrv: str
    broker: str
    seconds: float
    pause_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


async def run(order: Order) -> None:
    ledger = Ledger(Path(order.folder) / f"worker-{order.worker}.ledger")
    stage = Stage(order.worker, order.namesrv, order.broker, order.clients, order.pause_s, ledger)
    own = share(order.clients, order.worker, order.workers)
    stage.senders = sum(part.role.task is Task.PRODUCE for part in own)
    loop = asyncio.get_running_loop()
    loop.call_later(order.seconds, stage.last_call.set)
    loop.add_reader(sys.stdin.fileno(), _curtain, stage)
    flushing = loop.create_task(_flush(stage))
    try:
        # The first that fails with anything but an MqError, which clients handle, ends them all, and the run.
        async with asyncio.TaskGroup() as clients:
            for part in own:
                clients.create_task(play(stage, part))
    finally:
        flushing.cancel()
        ledger.close()


def _curtain(stage: Stage) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    stage.last_call.set()
    stage.curtain.set()


async def _flush(stage: Stage) -> None:
    while True:
        stage.ledger.flush()
        await first_of(stage.curtain, FLUSH_SECONDS)
        await asyncio.sleep(FLUSH_SECONDS if stage.curtain.is_set() else 0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # that brokers come and go is the point
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(run(Order.from_json(sys.argv[1])))
