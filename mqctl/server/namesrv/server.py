"""The name server's start and stop page."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from mqctl.remoting.connection import Connection
from mqctl.server.loop import RemotingServer
from mqctl.server.namesrv.config import NamesrvConfig, Settings
from mqctl.server.namesrv.handlers import handler_table
from mqctl.server.namesrv.kvconfig import KvConfig
from mqctl.server.namesrv.routes import RouteTable

log = logging.getLogger(__name__)


class NameServer:
    """Loop only. `clock` counts seconds and decides when a silent broker is gone."""

    def __init__(self, config: NamesrvConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = Settings(config)
        self._kv = KvConfig(Path(config.kv_config_path))
        self._routes = RouteTable(clock)
        self._server = RemotingServer(
            handler_table(self._routes, self._kv, self._settings), on_close=self._routes.channel_closed
        )
        self.port = config.listen_port

    async def start(self) -> None:
        """Ready for requests when it returns; `port` is then the real one. Raises StoreError, ConfigError."""
        await self._kv.load()
        config = self._settings.now
        self.port = await self._server.listen(config.bind_address, config.listen_port)
        self._server.spawn(self._drop_silent_brokers())
        log.info("name server: listening on %s:%d", config.bind_address, self.port)

    async def stop(self) -> None:
        await self._server.stop()
        log.info("name server: stopped")

    async def _drop_silent_brokers(self) -> None:
        while True:
            await asyncio.sleep(self._settings.now.scan_not_active_broker_interval / 1000)
            for channel in self._routes.expire():
                cast(Connection, channel).close()
