"""What tools ask of clients by way of the broker: their inner state, or to consume a certain message."""

from __future__ import annotations

from typing import Final

from mqctl.errors import ConnectionFailed, RequestFailed, RequestTimeout
from mqctl.remoting import bodies
from mqctl.remoting.bodies_admin import ProducerInfo, ProducerTable
from mqctl.remoting.codes import VERSION_3_1_8_SNAPSHOT, LanguageCode, RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_consumer import ConsumeDirectlyHeader, RunningInfoHeader
from mqctl.server.broker.clients import Client, Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.loop import HandlerTable
from mqctl.store import record
from mqctl.store.store import MessageStore

# As long as Apache's broker waits; tools wait a little longer for the broker.
CLIENT_SECONDS: Final = 10.0


class ClientAdmin:
    """Loop only."""

    def __init__(self, config: BrokerConfig, clients: Clients, store: MessageStore) -> None:
        self._config = config
        self._clients = clients
        self._store = store

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_ALL_PRODUCER_INFO: (None, self.on_producers),
            RequestCode.GET_CONSUMER_RUNNING_INFO: (RunningInfoHeader, self.on_running_info),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: (ConsumeDirectlyHeader, self.on_consume_directly),
        }

    def on_producers(self, connection: Connection, request: Command, _: None) -> Command:
        table = {
            group: [self._describe(member) for member in members.values()]
            for group, members in self._clients.producers.items()
        }
        return request.reply(body=bodies.encode(ProducerTable(data=table)))

    def _describe(self, member: Client) -> ProducerInfo:
        return ProducerInfo(
            client_id=member.client_id,
            remote_ip=f"/{member.connection.peer_text}",
            language=LanguageCode(member.language).name,
            version=member.version,
            last_update_timestamp=self._store.now_ms() - int(self._clients.silent_seconds(member) * 1000),
        )

    async def on_running_info(self, connection: Connection, request: Command, header: RunningInfoHeader) -> Command:
        return await self._ask(header.consumer_group, header.client_id, request, request.fields(), b"")

    async def on_consume_directly(
        self, connection: Connection, request: Command, header: ConsumeDirectlyHeader
    ) -> Command:
        """The client gets the message with the request, whatever its position in the queue; offsets stay."""
        try:
            _, phys_offset = record.decode_msg_id(header.msg_id or "")
        except ValueError as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, str(error)) from None
        found = self._store.log.read_record(phys_offset)
        if found is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"the message {header.msg_id} is not in this broker's log")
        fields = {**request.fields(), "brokerName": self._config.broker_name}
        return await self._ask(header.consumer_group, header.client_id, request, fields, found)

    async def _ask(
        self, group: str, client_id: str | None, request: Command, fields: dict[str, str], body: bytes
    ) -> Command:
        """The client's own answer, passed on as it is."""
        client = self._find(group, client_id)
        question = Command(request.code, ext=fields, body=body)
        try:
            answer = await client.connection.request(question, CLIENT_SECONDS)
        except RequestTimeout as error:
            raise RequestFailed(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}>: {error}"
            ) from None
        except ConnectionFailed as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"consumer <{group}> <{client_id}>: {error}") from None
        return request.reply(answer.code, ext=answer.fields(), body=answer.body, remark=answer.remark)

    def _find(self, group: str, client_id: str | None) -> Client:
        online = self._clients.consumers.get(group)
        for member in online.members.values() if online is not None else ():
            if member.client_id == client_id:
                if member.version < VERSION_3_1_8_SNAPSHOT:
                    raise RequestFailed(
                        ResponseCode.SYSTEM_ERROR, f"the consumer <{client_id}> is too old to be asked for that"
                    )
                return member
        raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
