"""The name server's configuration, with the keys of RocketMQ's NamesrvConfig where it has them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from mqctl.config import dump, update_over_wire
from mqctl.store.smallfiles import replace_file


def _in_home(name: str) -> str:
    return str(Path.home() / "namesrv" / name)


class NamesrvConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """`configStorePath` is where UPDATE_NAMESRV_CONFIG writes; whoever starts the server from a file sets it
    to that file, as RocketMQ does, so that a change outlives a restart.
    """

    listen_port: Annotated[int, Meta(ge=0, le=65535)] = 9876
    bind_address: str = "0.0.0.0"
    kv_config_path: str = field(default_factory=lambda: _in_home("kvConfig.json"))
    config_store_path: str = field(default_factory=lambda: _in_home("namesrv.properties"))
    order_message_enable: bool = False
    # A key of 5.x, in milliseconds; 4.9.7 scans every 10 s and cannot be told otherwise.
    scan_not_active_broker_interval: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 10_000


# Where it listens and which files it writes is the business of whoever starts it (CVE-2023-37582).
PROTECTED: Final = frozenset({"listenPort", "bindAddress", "kvConfigPath", "configStorePath"})


class Settings:
    """The configuration as it is now. Loop only; the disk is waited for in a thread."""

    def __init__(self, config: NamesrvConfig) -> None:
        self.now = config
        self._changing = asyncio.Lock()

    async def update(self, properties: Mapping[str, str]) -> None:
        """In force once it is on disk. Raises RequestFailed for keys and values, StoreError for the disk."""
        async with self._changing:
            changed = update_over_wire(self.now, properties, PROTECTED)
            path = Path(changed.config_store_path)
            await asyncio.to_thread(replace_file, path, dump(changed).encode())
            self.now = changed
