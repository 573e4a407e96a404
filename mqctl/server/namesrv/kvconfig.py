"""The key-value table: small settings that outlive the name server, in namespaces.

What RocketMQ keeps there is ORDER_TOPIC_CONFIG (topic -> "brokerA:4;brokerB:4"), which brokers get with every
registration. On disk: `{"configTable":{namespace:{key:value}}}`, RocketMQ's kvConfig.json.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from mqctl.store.smallfiles import load_file_or_backup, replace_file

log = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"

Namespaces = dict[str, dict[str, str]]


class KvFile(msgspec.Struct, rename="camel"):
    """Java stores a null value where PUT_KV_CONFIG had none; it reads back as an absent key, here too."""

    config_table: dict[str, dict[str, str | None]] = {}


class KvConfig:
    """The table in memory and on disk. Loop only; the disk is waited for in a thread.

    A change is visible, and its request answered, once it is on disk: RocketMQ answers success even when it
    could not write, and the setting is gone with the next restart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: Namespaces = {}
        # Two changes at a time would each write a table without the other.
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Raises StoreError when there is a file but neither it nor its backup can be read."""
        table = await asyncio.to_thread(load_file_or_backup, self._path, _parse)
        self._table = table or {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Its entries, not to be changed; None if it was never created. An emptied one still exists."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Raises StoreError, and changes nothing, when the file cannot be written. So does delete."""
        async with self._changing:
            await self._replace(namespace, {**self._table.get(namespace, {}), key: value})
        log.info("kv %s/%s: set", namespace, key)

    async def delete(self, namespace: str, key: str) -> None:
        async with self._changing:
            if self.get(namespace, key) is None:
                return
            kept = {k: v for k, v in self._table[namespace].items() if k != key}
            await self._replace(namespace, kept)
        log.info("kv %s/%s: deleted", namespace, key)

    async def _replace(self, namespace: str, entries: dict[str, str]) -> None:
        table = {**self._table, namespace: entries}
        await asyncio.to_thread(replace_file, self._path, _encode(table))
        self._table = table


def _parse(data: bytes) -> Namespaces:
    loaded = msgspec.json.decode(data, type=KvFile).config_table
    return {
        namespace: {key: value for key, value in entries.items() if value is not None}
        for namespace, entries in loaded.items()
    }


def _encode(table: Namespaces) -> bytes:
    return msgspec.json.encode({"configTable": table}, order="sorted")
