"""Asking a cluster: name servers for routes and lists, brokers for what only they know.

Every question is one method that returns plain structs. What a command prints is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, Self, TypeVar

from mqctl.client.admin.everywhere import Answers, ask_all, guess
from mqctl.client.clusters import unreachable
from mqctl.client.namesrv import NameServers
from mqctl.errors import ConnectionFailed, MqError, NotFound, ResponseError
from mqctl.names import AUTO_CREATE_TOPIC
from mqctl.remoting import bodies
from mqctl.remoting.bodies import (
    Body,
    ClusterInfo,
    KVTable,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
)
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import CreateTopicHeader
from mqctl.remoting.pool import ConnectionPool

if TYPE_CHECKING:
    from mqctl.remoting.signing import Credentials

B = TypeVar("B", bound=Body)

TIMEOUT_S: Final = 5.0  # that of RocketMQ's admin tools


class Admin:
    """Loop only. Closes its connections when left, so use it with `async with`.

    All methods raise ConnectionFailed, RequestTimeout, or ResponseError for an answer that is no success.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        timeout: float = TIMEOUT_S,
        credentials: Credentials | None = None,
    ) -> None:
        self.timeout = timeout
        self._pool = ConnectionPool(credentials=credentials)
        self._name_servers = NameServers(self._pool, name_servers, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    # -- name servers -------------------------------------------------------------------------------

    @property
    def name_server_addresses(self) -> list[str]:
        return self._name_servers.addresses

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Raises NotFound when no broker has the topic, with the names that are most like it."""
        try:
            return await self._name_servers.topic_route(topic)
        except NotFound as error:
            near = guess(topic, await self.topic_list())
            raise NotFound(error.message, hint=near or error.hint) from None

    async def cluster_info(self) -> ClusterInfo:
        return await self._name_servers.cluster_info()

    async def topic_list(self, cluster: str | None = None) -> list[str]:
        """All topics, or those of one cluster; sorted. A cluster that does not exist has none."""
        if cluster is None:
            command = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            command = Command(RequestCode.GET_TOPICS_BY_CLUSTER, ext={"cluster": cluster})
        return sorted(self.decode(TopicList, await self.ask(command)).topic_list)

    async def system_topics(self) -> set[str]:
        """The topics that servers made for themselves, as name server and brokers know them."""
        answer = await self.ask(Command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS))
        known = self.decode(TopicList, answer)
        topics = set(known.topic_list)
        if known.broker_addr:
            # Brokers of one release agree about theirs; the name server says which one to ask.
            command = Command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            topics.update(self.decode(TopicList, await self.call(known.broker_addr, command)).topic_list)
        return topics

    async def kv_config(self, namespace: str, key: str) -> str | None:
        """None when nothing is stored under the key."""
        command = Command(RequestCode.GET_KV_CONFIG, ext={"namespace": namespace, "key": key})
        return await _stored(self.ask(command))

    async def kv_everywhere(self, namespace: str, key: str) -> Answers[str | None]:
        """The same of each name server, by address. Raises the first failure when none answers."""

        async def read(address: str) -> str | None:
            command = Command(RequestCode.GET_KV_CONFIG, ext={"namespace": namespace, "key": key})
            return await _stored(self._pool.call(address, command, self.timeout))

        return await ask_all({address: address for address in self.name_server_addresses}, read)

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All values of a namespace by key; none when it does not exist."""
        command = Command(RequestCode.GET_KVLIST_BY_NAMESPACE, ext={"namespace": namespace})
        try:
            return self.decode(KVTable, await self.ask(command)).table
        except ResponseError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise

    async def put_kv_config(self, namespace: str, key: str, value: str | None) -> dict[str, MqError]:
        """At every name server, as they do not tell each other; None deletes the key. Returns by address why some did
        not take it; raises the first of these failures when none did."""
        fields = {"namespace": namespace, "key": key}

        async def put(address: str) -> None:
            if value is None:
                command = Command(RequestCode.DELETE_KV_CONFIG, ext=fields)
            else:
                command = Command(RequestCode.PUT_KV_CONFIG, ext={**fields, "value": value})
            await self._pool.call(address, command, self.timeout)

        return (await ask_all({address: address for address in self.name_server_addresses}, put)).failed

    async def ask(self, command: Command) -> Command:
        """The answer of the first name server that gives one. Raises ResponseError if it is no success."""
        return await self._name_servers.ask(command)

    # -- brokers ------------------------------------------------------------------------------------

    async def topic_config(self, address: str, topic: str) -> TopicConfig | None:
        """The topic as this broker has it, None if it has not. 4.9.7 can only be asked for all topics."""
        return (await self.topic_configs(address)).get(topic)

    async def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        answer = await self.call(address, Command(RequestCode.GET_ALL_TOPIC_CONFIG))
        return self.decode(TopicConfigTable, answer).topic_config_table

    async def create_topic(self, address: str, config: TopicConfig, *, attributes: bool = False) -> None:
        """Creates the topic on this broker or gives it this configuration, the whole of it. Brokers of 5.x keep
        attributes, many of which cannot be changed: they go along only if asked for."""
        header = CreateTopicHeader(
            topic=config.topic_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            default_topic=AUTO_CREATE_TOPIC,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
        )
        fields = header_fields(header)
        if attributes and config.attributes:
            fields["attributes"] = ",".join(f"+{name}={value}" for name, value in config.attributes.items())
        await self.call(address, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields))

    async def topic_stats(self, address: str, topic: str) -> TopicStatsTable:
        command = Command(RequestCode.GET_TOPIC_STATS_INFO, ext={"topic": topic})
        return self.decode(TopicStatsTable, await self.call(address, command))

    async def runtime_info(self, address: str) -> dict[str, str]:
        answer = await self.call(address, Command(RequestCode.GET_BROKER_RUNTIME_INFO))
        return self.decode(KVTable, answer).table

    async def request(self, address: str, command: Command, timeout: float | None = None) -> Command:
        """A broker's answer, whatever its code. Name servers want no signature."""
        try:
            return await self._pool.request(address, command, self.timeout if timeout is None else timeout)
        except ConnectionFailed as error:
            raise unreachable(address, error) from None

    async def call(self, address: str, command: Command, timeout: float | None = None) -> Command:
        """A broker's answer to a request that must succeed. Raises ResponseError for any other code."""
        answer = await self.request(address, command, timeout)
        if answer.code != ResponseCode.SUCCESS:
            error = ResponseError(answer.code, answer.remark, address)
            if "AclException" in (answer.remark or ""):
                error.hint = "say who you are with the variables MQCTL_ACCESS_KEY and MQCTL_SECRET_KEY"
            raise error
        return answer

    def decode(self, kind: type[B], answer: Command) -> B:
        """An answer's body. Raises MqError for one that cannot be read."""
        try:
            return bodies.decode(kind, answer.body)
        except bodies.BodyError as error:
            raise MqError(f"an answer cannot be read: {error}") from None


async def _stored(answering: Awaitable[Command]) -> str | None:
    """The value that a name server answers with; None when it has none."""
    try:
        return (await answering).fields().get("value")
    except ResponseError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
