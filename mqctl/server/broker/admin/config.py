"""The broker's configuration, read and changed over the network."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from mqctl.config import changed_keys, dump, parse_properties, update_over_wire
from mqctl.errors import ConfigError, RequestFailed, StoreError
from mqctl.properties import decode_text, format_properties, with_values
from mqctl.remoting.bodies import DataVersion
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.config import AT_START_KEYS, PROTECTED_KEYS, BrokerConfig
from mqctl.server.broker.topics import Topics
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable
from mqctl.store.smallfiles import replace_file

log = logging.getLogger(__name__)

# A whole configuration takes a few kilobytes. Reading a frame full of properties would take seconds.
MAX_UPDATE_BYTES: Final = 64 * 1024

# What this broker has no choice about, and mqadmin's exportConfigs fails without.
FIXED: Final = {"brokerRole": "ASYNC_MASTER", "slaveReadEnable": "false", "filterServerNums": "0", "useTLS": "false"}


class ConfigAdmin:
    """Loop only. `file` is what the broker was started from: a change that outlives a restart is written there, and
    only that change; Apache's broker writes all its settings, and the comments are gone."""

    def __init__(self, config: BrokerConfig, topics: Topics, clock: Clock, file: Path | None) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock
        self._file = file
        self._version = DataVersion(counter=0, timestamp=self._now_ms())
        self._changing = asyncio.Lock()

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_BROKER_CONFIG: (None, self.on_get),
            RequestCode.UPDATE_BROKER_CONFIG: (None, self.on_update),
        }

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)

    def on_get(self, connection: Connection, request: Command, _: None) -> Command:
        version = msgspec.json.encode(self._version).decode()
        return request.reply(ext={"version": version}, body=(dump(self._config) + format_properties(FIXED)).encode())

    async def on_update(self, connection: Connection, request: Command, _: None) -> Command:
        """All of it or nothing. The remark of the answer, which Apache's tools ignore, says what is not in force yet
        or will be forgotten."""
        wanted = self._parse(request.body)
        async with self._changing:
            changed = update_over_wire(self._config, wanted, PROTECTED_KEYS)
            keys = changed_keys(self._config, changed)
            values = {key: wanted[key] for key in keys}
            await self._save(values)
            permission = self._config.broker_permission
            for name in keys.values():
                setattr(self._config, name, getattr(changed, name))
            self._version = self._version.next(self._now_ms())
        for key, value in values.items():
            log.info("%s: %s set to %s", connection.peer_text, key, value)
        if self._config.broker_permission != permission:
            self._topics.put(*self._topics.all().values())  # name servers take a topic's permission when it changed
        return request.reply(remark=self._caveats(values))

    def _parse(self, body: bytes) -> Mapping[str, str]:
        if len(body) > MAX_UPDATE_BYTES:
            text = f"{len(body)} bytes of properties, {MAX_UPDATE_BYTES} are allowed"
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, text)
        try:
            return parse_properties(decode_text(body), "request")
        except ConfigError as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, error.message) from None

    async def _save(self, values: Mapping[str, str]) -> None:
        if self._file is None or not values:
            return
        try:
            await asyncio.to_thread(_write_values, self._file, values)
        except (ConfigError, StoreError) as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"nothing is changed: {error.message}") from None

    def _caveats(self, values: Mapping[str, str]) -> str | None:
        late = sorted(AT_START_KEYS & values.keys())
        if self._file is None and values:
            forgotten = "not kept: the broker was started without a configuration file"
            return f"{', '.join(late)} can only be set at start; {forgotten}" if late else forgotten
        return f"in force after the next start: {', '.join(late)}" if late else None


def _write_values(file: Path, values: Mapping[str, str]) -> None:
    """Runs in a thread. Raises StoreError and ConfigError."""
    try:
        text = decode_text(file.read_bytes())
    except OSError as error:
        raise StoreError(f"cannot read {file}: {error.strerror or error}") from None
    replace_file(file, with_values(text, values).encode())
