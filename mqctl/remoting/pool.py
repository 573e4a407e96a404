"""Outgoing connections, one per address, made when first needed and again after they were lost."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from mqctl.errors import ConfigError, ConnectionFailed, ResponseError
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection, RequestSink, Sign

if TYPE_CHECKING:
    from mqctl.remoting.signing import Credentials

CONNECT_SECONDS: Final = 3.0


def split_address(address: str) -> tuple[str, int]:
    """`host:port` as text to its parts; brackets around an IPv6 host are taken off. Raises ConfigError."""
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is not an address", hint="write it as host:port, such as 127.0.0.1:9876")
    return host.strip("[]"), int(port)


def split_addresses(text: str) -> list[str]:
    """A list of addresses as RocketMQ writes it: separated by semicolons (commas are taken too)."""
    return [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]


class ConnectionPool:
    """Loop only. `on_request` gets what peers ask of us; with credentials, what we ask is signed."""

    def __init__(self, on_request: RequestSink | None = None, credentials: Credentials | None = None) -> None:
        self._on_request = on_request or _ignore
        self._sign = _signer(credentials)
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    def standing(self, address: str) -> Connection | None:
        """The connection to the address if there is an open one."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_open else None

    def forget(self, address: str) -> None:
        """Closes the connection to an address that nobody will ask for again."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    async def connect(self, address: str) -> Connection:
        """Raises ConnectionFailed. Callers that ask at the same time share one attempt."""
        connection = self.standing(address)
        if connection is not None:
            return connection
        if self._closed:
            raise ConnectionFailed(f"no connection to {address}: closed on this side")
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._open(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        return await asyncio.shield(task)

    def _connected(self, address: str, done: asyncio.Task[Connection]) -> None:
        self._connecting.pop(address, None)
        if not done.cancelled() and done.exception() is None:
            self._connections[address] = done.result()

    async def _open(self, address: str) -> Connection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()

        def make() -> Connection:
            return Connection(self._on_request, ends_silence=True, sign=self._sign)

        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(make, host, port)
        except (OSError, TimeoutError) as error:
            raise ConnectionFailed(f"cannot connect to {address}: {_reason(error)}") from None
        return connection

    async def request(self, address: str, command: Command, timeout: float) -> Command:
        """The answer, whatever its code."""
        return await (await self.connect(address)).request(command, timeout)

    async def call(self, address: str, command: Command, timeout: float) -> Command:
        """The answer of a request that must succeed. Raises ResponseError for any other code."""
        answer = await self.request(address, command, timeout)
        if answer.code != 0:
            raise ResponseError(answer.code, answer.remark, address)
        return answer

    async def close(self) -> None:
        self._closed = True
        for task in self._connecting.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        # Transports close on the next turn of the loop.
        await asyncio.sleep(0)


def _reason(error: OSError | TimeoutError) -> str:
    """asyncio puts the address into `strerror`, where it says again what the sentence around it says."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)  # a name that does not resolve has a negative number of its own


def _signer(credentials: Credentials | None) -> Sign | None:
    if credentials is None:
        return None
    from mqctl.remoting.signing import signer  # most have no use for it

    return signer(credentials)


def _ignore(connection: Connection, request: Command) -> None:
    """A peer asked something of a caller that serves nothing: it will see a time-out."""
