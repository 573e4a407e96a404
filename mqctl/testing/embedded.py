"""The cluster inside a test: both servers on free ports of this machine, on a loop in a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqctl.background import BackgroundLoop
from mqctl.client.admin import Admin
from mqctl.config import bind
from mqctl.errors import ConfigError
from mqctl.remoting.bodies import TopicConfig
from mqctl.remoting.message import ReceivedMessage, decode_records
from mqctl.server.broker.app import Broker
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.clock import MovableClock
from mqctl.server.namesrv.config import NamesrvConfig
from mqctl.server.namesrv.server import NameServer
from mqctl.server.standalone import LOOPBACK, free_port
from mqctl.store.fetch import FetchStatus, Limits, fetch

# Between looking for a free port and opening it somebody else may take it.
PORT_ATTEMPTS: Final = 20

LOOK_AGAIN_SECONDS: Final = 0.005
# How much `messages` reads at a time.
READ_PIECE: Final = Limits(1000, 4 * 1024 * 1024)

# RocketMQ's own sizes are made for servers: a gigabyte for the log, half of one for an index.
SMALL_FILES: Final = {
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 3000),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}


@contextlib.contextmanager
def broker(**settings: object) -> Iterator[EmbeddedBroker]:
    """A running cluster. `settings` are keys of the broker's configuration, `autoCreateTopicEnable=False` for
    instance. Raises ConfigError for those it does not have."""
    folder = Path(tempfile.mkdtemp(prefix="mqctl-testing-"))
    background = BackgroundLoop("mqctl-testing")
    try:
        mq = EmbeddedBroker(background, folder, {key: _text(value) for key, value in settings.items()})
        try:
            mq.start()
            yield mq
        finally:
            mq.close()
    finally:
        background.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class BrokerClock:
    """The broker's time, which only runs ahead of the system's. Delays, retries and check-backs follow it."""

    def __init__(self, background: BackgroundLoop) -> None:
        self._background = background
        self.movable = MovableClock()

    def advance(self, seconds: float) -> None:
        """From any thread. What waits for a moment that is passed then happens at once."""
        self._background.call(lambda: self.movable.advance(seconds))

    def time(self) -> float:
        """Seconds since 1970."""
        return self.movable.time()


class EmbeddedBroker:
    """Its methods may be called from any thread and return when what they say is done."""

    def __init__(self, background: BackgroundLoop, folder: Path, settings: dict[str, str]) -> None:
        self._background = background
        self._folder = folder
        self._settings = settings
        self.clock = BrokerClock(background)
        self._namesrv = background.run(_started_namesrv(folder))
        self._broker: Broker | None = None
        self._port: int | None = None

    def __repr__(self) -> str:
        return f"EmbeddedBroker(namesrv={self.namesrv!r})"

    @property
    def namesrv(self) -> str:
        """What clients take as the address of the name server."""
        return f"{LOOPBACK}:{self._namesrv.port}"

    @property
    def address(self) -> str:
        """The broker's own address."""
        return self._running.config.address

    @property
    def store(self) -> Path:
        """The folder with the broker's files."""
        return self._folder / "store"

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        self._background.run(
            self._create_topic(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))
        )

    def messages(self, topic: str, *, at_least: int = 0, timeout: float = 10.0) -> list[ReceivedMessage]:
        """All that the topic holds, queue by queue, whoever has consumed it. Waits until there are `at_least` so many;
        raises TimeoutError when it takes longer than `timeout` seconds."""
        return self._background.run(self._messages(topic, at_least, timeout))

    # -- taking it away ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """The broker goes down in order; the name server stays. For tests of what clients do meanwhile."""
        stopped, self._broker = self._running, None
        self._background.run(stopped.stop())

    def start(self) -> None:
        """The broker comes back with its store, under the address it had."""
        if self._broker is None:
            self._broker = self._background.run(self._started_broker())

    def close(self) -> None:
        if self._broker is not None:
            self.stop()
        self._background.run(self._namesrv.stop())

    # -- on the loop ------------------------------------------------------------------------------------

    @property
    def _running(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("the broker is stopped: call start() first")
        return self._broker

    async def _started_broker(self) -> Broker:
        for attempt in range(PORT_ATTEMPTS):
            port = self._port or free_port()
            broker = Broker(self._config(port), self.clock.movable)
            try:
                await broker.start()
            except ConfigError:
                if self._port is not None or attempt + 1 == PORT_ATTEMPTS:
                    raise
            else:
                self._port = port
                return broker
        raise AssertionError("unreachable")

    def _config(self, port: int) -> BrokerConfig:
        config, unknown = bind(
            BrokerConfig,
            {
                **SMALL_FILES,
                "brokerName": "broker-a",
                "brokerFastFailureEnable": "false",  # a slow machine is no reason to refuse a test's messages
                **self._settings,
                "brokerIP1": LOOPBACK,
                "bindAddress": LOOPBACK,
                "listenPort": str(port),
                "namesrvAddr": self.namesrv,
                "storePathRootDir": str(self.store),
            },
            "mqctl.testing.broker()",
        )
        if unknown:
            raise ConfigError("; ".join(unknown))
        return config

    async def _messages(self, topic: str, at_least: int, timeout: float) -> list[ReceivedMessage]:
        try:
            async with asyncio.timeout(timeout):
                while len(found := _stored(self._running, topic)) < at_least:
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"{topic} has {len(found)} messages after {timeout:g} s, not {at_least}") from None
        return found

    async def _create_topic(self, config: TopicConfig) -> None:
        async with Admin(self.namesrv) as admin:
            await admin.create_topic(self.address, config)


async def _started_namesrv(folder: Path) -> NameServer:
    server = NameServer(
        NamesrvConfig(
            listen_port=0,
            bind_address=LOOPBACK,
            kv_config_path=str(folder / "namesrv" / "kvConfig.json"),
            config_store_path=str(folder / "namesrv" / "namesrv.properties"),
        )
    )
    await server.start()
    return server


def _stored(broker: Broker, topic: str) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    for queue_id in sorted(number for name, number in broker.store.queues if name == topic):
        offset = broker.store.queues[topic, queue_id].min_offset
        while (piece := fetch(broker.store, topic, queue_id, offset, READ_PIECE)).status is FetchStatus.FOUND:
            found += decode_records(piece.records)
            offset = piece.next_offset
    return found
