"""Name servers: several that know the same, of which one is asked until it fails."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from typing import Final, TypeVar

from mqctl.errors import ConfigError, ConnectionFailed, MqError, NotFound, RequestTimeout, ResponseError
from mqctl.remoting import bodies
from mqctl.remoting.bodies import Body, ClusterInfo, TopicRouteData
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.pool import ConnectionPool, split_address, split_addresses

B = TypeVar("B", bound=Body)

TIMEOUT_S: Final = 3.0  # mqClientApiTimeout of Java's clients


DEFAULT_NAMESRV: Final = "127.0.0.1:9876"


def default_name_servers() -> str:
    """The variable NAMESRV_ADDR, which Java's clients read as well, else the usual port of this machine."""
    return os.environ.get("NAMESRV_ADDR") or DEFAULT_NAMESRV


class NameServers:
    """Loop only. Begins with a random one, so that many clients spread over all, and goes on to the next when
    that one cannot be reached or does not answer."""

    def __init__(self, pool: ConnectionPool, addresses: str | Sequence[str], *, timeout: float = TIMEOUT_S) -> None:
        """Raises ConfigError when there is no address, or one that is none."""
        self.addresses = split_addresses(addresses) if isinstance(addresses, str) else list(addresses)
        if not self.addresses:
            raise ConfigError("no name server is given", hint="name one with -n host:port, or in NAMESRV_ADDR")
        for address in self.addresses:
            split_address(address)
        self._pool = pool
        self._timeout = timeout
        self._current = random.randrange(len(self.addresses))

    async def ask(self, command: Command) -> Command:
        """The answer of the first that gives one. Raises ResponseError if it is no success, ConnectionFailed or
        RequestTimeout when none answers."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        failures: list[MqError] = []
        count, first = len(self.addresses), self._current
        for step in range(count):
            number = (first + step) % count
            # One that hangs leaves the others their part of the time.
            seconds = (deadline - loop.time()) / (count - step)
            try:
                return await self._call(self.addresses[number], command, seconds)
            except (ConnectionFailed, RequestTimeout) as error:
                failures.append(error)
                self._pool.forget(self.addresses[number])  # it may hang: next time over a new connection
                self._current = (number + 1) % count
        raise type(failures[0])(
            "; ".join(error.message for error in failures),
            hint="start one with `mqctl standalone`, or say where it is with -n host:port or NAMESRV_ADDR",
        )

    async def _call(self, address: str, command: Command, seconds: float) -> Command:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                await self._pool.connect(address)
        except TimeoutError:
            raise ConnectionFailed(f"cannot connect to {address}: no answer") from None
        return await self._pool.call(address, command, max(0.0, deadline - loop.time()))

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Raises NotFound when no broker has the topic."""
        # A recent version number, which Command announces, makes 4.9.7 answer in strict JSON.
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
        try:
            return _decode(TopicRouteData, await self.ask(command))
        except ResponseError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            raise NotFound(
                f"the topic {topic} does not exist", hint=f"create it with `mqctl topic update {topic}`"
            ) from None

    async def cluster_info(self) -> ClusterInfo:
        return _decode(ClusterInfo, await self.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO)))


def _decode(kind: type[B], answer: Command) -> B:
    try:
        return bodies.decode(kind, answer.body)
    except bodies.BodyError as error:
        raise MqError(f"a name server's answer cannot be read: {error}") from None
