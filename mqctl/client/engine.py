"""What every client has: connections to brokers, routes, heartbeats, and a table for what brokers ask.

    Producer, consumers ─> Engine ─> Routes ─> NameServers ─┐
                              ├──── heartbeats ─────────────┼─> ConnectionPool ─> sockets
                              └<─── Dispatcher <────────────┘

A client owns one engine and one client id, as each client object of Java's has its own MQClientInstance. There
is one connection per broker, on which requests of all kinds are multiplexed, and the first thing a broker
hears on it is a heartbeat: brokers know members of groups by their connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from mqctl.client.backoff import Backoff
from mqctl.client.clusters import MASTER_ID, unreachable
from mqctl.client.dispatch import Dispatcher, Handler
from mqctl.client.identity import Identity
from mqctl.client.namesrv import NameServers
from mqctl.client.routes import REFRESH_SECONDS, Routes
from mqctl.errors import ConnectionFailed, MqError, RequestTimeout, ResponseError
from mqctl.remoting.bodies import ConsumerData
from mqctl.remoting.codes import ResponseCode, request_name
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection, Request
from mqctl.remoting.pool import ConnectionPool

if TYPE_CHECKING:
    from mqctl.remoting.signing import Credentials

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0
HEARTBEAT_SECONDS: Final = 30.0
# Leaving politely is worth this long; brokers notice the closed connection anyway.
GOODBYE_SECONDS: Final = 1.0

_INTRODUCED: Final = object()


class Engine:
    """Loop only. `start`, use, `close`; or `async with`.

    Requests raise ConnectionFailed or RequestTimeout when no answer comes; none waits past its time-out.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        client_id: str | None = None,
        credentials: Credentials | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._identity = Identity(client_id)
        self._dispatcher = Dispatcher(self.spawn)
        self._pool = ConnectionPool(self._dispatcher.dispatch, credentials)
        self.name_servers = NameServers(self._pool, name_servers)
        self.routes = Routes(self.name_servers.topic_route)
        self.routes.on_change.append(lambda topic, route: self._drop_gone_brokers())
        self._backoff = Backoff()
        self._periods = (refresh_seconds, heartbeat_seconds)
        self._tasks: set[asyncio.Task[None]] = set()
        self._broker_addresses: set[str] = set()
        self._started = False
        self._closed = False

    # -- life -------------------------------------------------------------------------------------------

    def must_be_new(self) -> None:
        """Raises MqError when it was started before. Clients ask first, before they change anything."""
        if self._closed:
            raise MqError(f"the client {self.client_id} is closed", hint="make a new one: a client starts once")
        if self._started:
            raise MqError(f"the client {self.client_id} is started already", hint="entering `with` starts it as well")

    async def start(self) -> None:
        self.must_be_new()
        self._started = True
        refresh_seconds, heartbeat_seconds = self._periods
        self.every(refresh_seconds, self.routes.refresh_all)
        self.every(heartbeat_seconds, self.heartbeat)

    async def close(self) -> None:
        """Says goodbye to the brokers and ends every task. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.routes.stop()
        await self._tell_brokers(self._identity.goodbyes())
        await self._pool.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a coroutine until it ends or the engine closes; an exception is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Runs `work` again and again, with so much time between; one that raises is logged and tried again."""
        return self.spawn(_repeat(seconds, work))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of client %s failed", self.client_id, exc_info=error)

    # -- who we are -------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        return self._identity.client_id

    def add_producer(self, group: str) -> None:
        """From now on heartbeats name this group."""
        self._identity.producers.add(group)

    def add_consumer(self, group: str, data: Callable[[], ConsumerData]) -> None:
        """From now on heartbeats hold what `data` returns at that moment."""
        self._identity.consumers[group] = data

    def serve(self, code: int, header: type | None, handler: Handler) -> None:
        """Handles what brokers ask under `code`; `handler` gets connection, request and typed header, and returns
        the answer or None, or a coroutine for it."""
        self._dispatcher.serve(code, header, handler)

    async def heartbeat(self) -> None:
        """To every broker that is known: masters, and slaves as well if there is a consumer, which may read there.

        Waits for their answers. One that does not answer is logged.
        """
        if self._identity.has_groups:
            await asyncio.gather(*(self.heartbeat_at(address) for address in self._heartbeat_addresses()))

    def _heartbeat_addresses(self) -> list[str]:
        slaves_too = bool(self._identity.consumers)
        return [
            address
            for addresses in self.routes.brokers.values()
            for broker_id, address in addresses.items()
            if slaves_too or broker_id == MASTER_ID
        ]

    def strangers(self) -> set[str]:
        """The brokers that would get a heartbeat and have had none since we are connected, or are not."""
        return {address for address in self._heartbeat_addresses() if self.standing(address) is None}

    async def heartbeat_at(self, address: str) -> None:
        try:
            connection = await self._connection(address)
        except MqError as error:
            log.info("heartbeat: %s", error.message)
            return
        connection.attachment = _INTRODUCED
        await self._tell(connection, self._identity.heartbeat(), TIMEOUT_S)

    async def _tell_brokers(self, commands: list[Command]) -> None:
        """Those that are connected; the others have noticed already."""
        found = [self._pool.standing(address) for address in self._broker_addresses]
        connections = [connection for connection in found if connection is not None]
        await asyncio.gather(
            *(self._tell(connection, command, GOODBYE_SECONDS) for connection in connections for command in commands)
        )

    async def _tell(self, connection: Connection, command: Command, timeout: float) -> None:
        """What a broker need not know at any cost."""
        try:
            answer = await connection.request(command, timeout)
            if answer.code != ResponseCode.SUCCESS:
                raise ResponseError(answer.code, answer.remark, connection.peer_text)
        except MqError as error:
            log.info("%s: %s", request_name(command.code), error.message)

    # -- asking brokers ---------------------------------------------------------------------------------

    async def connect(self, address: str) -> Connection:
        """A connection on which the broker knows us, or is being told before anything else."""
        connection = self._pool.standing(address)
        if connection is None:
            connection = await self._connection(address)
        if connection.attachment is not _INTRODUCED:
            connection.attachment = _INTRODUCED
            if self._identity.has_groups:
                self.spawn(self._tell(connection, self._identity.heartbeat(), TIMEOUT_S))
                await asyncio.sleep(0)  # the heartbeat is queued first
        return connection

    async def request(self, address: str, command: Request, timeout: float = TIMEOUT_S) -> Command:
        """A broker's answer, whatever its code."""
        connection = self.standing(address)
        if connection is None:
            connection, timeout = await self.connect_within(address, timeout)
        return await connection.request(command, timeout)

    def standing(self, address: str) -> Connection | None:
        """A connection on which the broker knows us, if there is one."""
        connection = self._pool.standing(address)
        return connection if connection is not None and connection.attachment is _INTRODUCED else None

    async def call(self, address: str, command: Command, timeout: float = TIMEOUT_S) -> Command:
        """A broker's answer to a request that must succeed. Raises ResponseError for any other code."""
        answer = await self.request(address, command, timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise ResponseError(answer.code, answer.remark, address)
        return answer

    async def oneway(self, address: str, command: Request, timeout: float = TIMEOUT_S) -> None:
        """Returns when the command is on its way and the broker keeps up with reading. Raises ConnectionFailed, or
        RequestTimeout when it does not."""
        try:
            async with asyncio.timeout(timeout):
                connection = await self.connect(address)
                connection.oneway(command)
                await connection.drain()
        except TimeoutError:
            raise RequestTimeout(f"{address} took nothing within {timeout:g} s") from None

    async def connect_within(self, address: str, timeout: float) -> tuple[Connection, float]:
        """A connection, and how much of the time is left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout(timeout):
                connection = await self.connect(address)
        except TimeoutError:
            raise ConnectionFailed(f"no connection to {address} within {timeout:g} s") from None
        return connection, max(0.0, deadline - loop.time())

    async def _connection(self, address: str) -> Connection:
        if self._closed:
            raise MqError(f"the client {self.client_id} is closed")
        if not self._started:
            raise MqError(f"the client {self.client_id} is not started", hint="use it in a `with` block, or call start")
        self._backoff.check(address)
        try:
            connection = await self._pool.connect(address)
        except ConnectionFailed as error:
            self._backoff.failed(address, error)
            raise unreachable(address, error) from None
        self._backoff.succeeded(address)
        return connection

    def _drop_gone_brokers(self) -> None:
        """Connections to addresses that no route names any more are closed."""
        now = {address for addresses in self.routes.brokers.values() for address in addresses.values()}
        for address in self._broker_addresses - now:
            self._pool.forget(address)
        self._broker_addresses = now


async def _repeat(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except MqError as error:
            log.warning("%s", error.message)
