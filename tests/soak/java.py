"""A guest: Apache's Java client among the others, sending and consuming on a topic of its own."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.peers.driver import DriverError, JavaDriver

from .ledger import Ledger

VERSION: Final = "4.9.7"
KIND: Final = "java"
TOPIC: Final = "soak-java"
BURST: Final = 20
PAUSE_SECONDS: Final = 0.5
FIRST: Final = {"from": "first"}  # a word that Python keeps for itself


class Guest:
    """Runs in a thread, since its driver blocks. Sends until `last_call`, writes down what came until it is left."""

    def __init__(self, folder: Path, namesrv: str) -> None:
        self._ledger = Ledger(folder / "java.ledger")
        self._driver = JavaDriver(VERSION)
        self._driver.call("producer_start", name="p", group="soak-java", namesrv=namesrv)
        self._driver.call("consumer_start", name="c", group=f"group-of-{TOPIC}", namesrv=namesrv, topic=TOPIC, **FIRST)
        self._seen = 0
        self.last_call = threading.Event()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.last_call.set()
        self._leave.set()
        self._thread.join()
        self._ledger.close()
        self._driver.close()

    def _run(self) -> None:
        number = 0
        while not self.last_call.is_set():
            self._send(number)
            number += BURST
            self._write_down()
            self.last_call.wait(PAUSE_SECONDS)
        self._ledger.silent()
        while not self._leave.is_set():
            self._write_down()
            self._leave.wait(PAUSE_SECONDS)

    def _send(self, start: int) -> None:
        template = {"topic": TOPIC, "body": f"{KIND}-".encode()}  # the driver appends the number
        try:
            sent = self._driver.call("send_many", name="p", count=BURST, start=start, template=template, timeout=120)
        except (DriverError, TimeoutError) as error:
            self._ledger.failed(f"{KIND}-send", error)
            return
        for index, *_ in sent["results"]:
            self._ledger.acknowledged(KIND, f"{KIND}-{index}")
        for _ in sent["errors"]:
            self._ledger.failed(f"{KIND}-send", DriverError("send", "refused"))

    def _write_down(self) -> None:
        messages = self._driver.messages("c")
        for message in messages[self._seen :]:
            self._ledger.consumed(message.body.decode())
        self._seen = len(messages)
        self._ledger.flush()
