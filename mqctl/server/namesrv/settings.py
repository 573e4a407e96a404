"""Requests that read and change what the name server keeps on disk: the KV table and its configuration."""

from __future__ import annotations

import logging
from typing import Final

from mqctl.config import decode_text, dump, parse_properties
from mqctl.errors import ConfigError, RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import KVTable
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_namesrv import KvKeyHeader, NamespaceHeader, PutKvConfigHeader
from mqctl.server.namesrv.config import Settings
from mqctl.server.namesrv.kvconfig import KvConfig

log = logging.getLogger(__name__)

# A whole configuration takes less than a kilobyte. Reading a frame full of properties would take seconds, in
# which nobody gets a route.
MAX_UPDATE_BYTES: Final = 64 * 1024


class KvHandlers:
    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv

    async def put(self, connection: Connection, request: Command, header: PutKvConfigHeader) -> Command:
        await self._kv.put(header.namespace, header.key, header.value)
        return request.reply()

    def get(self, connection: Connection, request: Command, header: KvKeyHeader) -> Command:
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            text = f"namespace {header.namespace} has no key {header.key}"
            raise RequestFailed(ResponseCode.QUERY_NOT_FOUND, text)
        return request.reply(ext={"value": value})

    async def delete(self, connection: Connection, request: Command, header: KvKeyHeader) -> Command:
        """Success also when there was nothing to delete."""
        await self._kv.delete(header.namespace, header.key)
        return request.reply()

    def namespace(self, connection: Connection, request: Command, header: NamespaceHeader) -> Command:
        table = self._kv.namespace(header.namespace)
        if table is None:
            raise RequestFailed(ResponseCode.QUERY_NOT_FOUND, f"there is no namespace {header.namespace}")
        return request.reply(body=bodies.encode(KVTable(table=table)))


class ConfigHandlers:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def get(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=dump(self._settings.now).encode())

    async def update(self, connection: Connection, request: Command, _: None) -> Command:
        if len(request.body) > MAX_UPDATE_BYTES:
            text = f"{len(request.body)} bytes of properties, {MAX_UPDATE_BYTES} are allowed"
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, text)
        try:
            properties = parse_properties(decode_text(request.body), "request")
        except ConfigError as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, error.message) from None
        if properties:
            await self._settings.update(properties)
            log.info("%s: configuration: %d keys updated", connection.peer_text, len(properties))
        return request.reply()
