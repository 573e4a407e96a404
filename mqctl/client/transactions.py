"""Transactions: a message that consumers see only if the work it tells about was done.

producer ── half message ──────────────> broker     stored, hidden
producer ── execute(message) ── local work
producer ── END_TRANSACTION ───────────> broker     commit: visible; rollback: gone; unknown: asked again
producer <── CHECK_TRANSACTION_STATE ─── broker     after a while without an end, any producer of the group
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, Unpack

from msgspec import Struct

from mqctl.client.calling import call
from mqctl.client.options import ProducerOptions
from mqctl.client.outgoing import Outgoing
from mqctl.client.producer import Producer
from mqctl.client.results import SendResult, SendStatus
from mqctl.errors import MqError
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import EndTransactionHeader, Int64
from mqctl.remoting.message import Message, ReceivedMessage, decode_records
from mqctl.store.properties import PGROUP, TRAN_MSG, join_properties
from mqctl.store.record import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_ROLLBACK, RecordError, decode_msg_id

log = logging.getLogger(__name__)


class TransactionState(Enum):
    """What became of the local work; the names are those of Java's LocalTransactionState."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


_ON_THE_WIRE: Final = {
    TransactionState.COMMIT: SYS_TRANSACTION_COMMIT,
    TransactionState.ROLLBACK: SYS_TRANSACTION_ROLLBACK,
    TransactionState.UNKNOWN: 0,
}

Verdict = TransactionState | Awaitable[TransactionState]


class TransactionListener(Protocol):
    """Does the local work and remembers what became of it. Plain methods run in threads, so they may block; or
    write them with `async def`. One that raises has said UNKNOWN."""

    def execute(self, message: Message, argument: Any) -> Verdict:
        """The half message is stored: do the work."""

    def check(self, message: ReceivedMessage) -> Verdict:
        """A broker asks again, perhaps after a restart of the producer that sent the message."""


@dataclass(frozen=True, slots=True)
class TransactionResult:
    sent: SendResult
    state: TransactionState


class CheckTransactionHeader(Struct, rename="camel"):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    transaction_id: str | None = None


class TransactionProducer(Producer):
    """A producer whose group answers the brokers' questions about half messages."""

    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, namesrv, **options)
        self._listener = listener
        self._engine.serve(RequestCode.CHECK_TRANSACTION_STATE, CheckTransactionHeader, self._on_check)

    async def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout: float | None = None
    ) -> TransactionResult:
        """Sends the message hidden, lets the listener `execute` with `argument`, and ends as that says.

        Raises what `send` raises; then nothing was executed. A half message never goes to the spool.
        """
        if message.delay_level or message.delay_ms or message.deliver_at_ms:
            raise MqError("a message in a transaction cannot be delayed")
        outgoing = self._encoder.single(message, half=True, own={TRAN_MSG: "true", PGROUP: self.group})
        sent = await self._delivery.deliver(outgoing, self._timeout if timeout is None else timeout)
        if sent.status is SendStatus.SEND_OK:
            state = await self._verdict("execute", outgoing.msg_id, message, argument)
        else:
            state = TransactionState.ROLLBACK  # as Java: a half message that may get lost decides nothing
        await self._end(outgoing, sent, state)
        return TransactionResult(sent, state)

    async def _verdict(self, method: str, msg_id: str, *args: object) -> TransactionState:
        try:
            return TransactionState(await call(getattr(self._listener, method), *args))
        except Exception:
            # The user's code: whatever it raises, the broker will ask again.
            log.exception("transaction %s: %s of the listener failed", msg_id, method)
            return TransactionState.UNKNOWN

    async def _end(self, outgoing: Outgoing, sent: SendResult, state: TransactionState) -> None:
        _, commit_log_offset = decode_msg_id(sent.offset_msg_id)
        header = EndTransactionHeader(self.group, sent.queue_offset, commit_log_offset, _ON_THE_WIRE[state])
        command = _end_command(header, sent.msg_id, sent.msg_id, from_check=False)
        address = self._engine.routes.master(sent.queue.broker_name)
        if address is None:
            return  # the broker is gone, and asks when it is back
        try:
            await self._engine.oneway(address, command)
        except MqError as error:
            log.warning("transaction %s: not ended, the broker will ask: %s", sent.msg_id, error.message)
        self._trace(outgoing, address, state, sent.msg_id, from_check=False)

    async def _on_check(self, connection: Connection, request: Command, header: CheckTransactionHeader) -> None:
        """One of these goes to one producer of the group at a time, and needs no answer of its own."""
        try:
            (message,) = decode_records(request.body)
        except RecordError as error:
            raise ValueError(f"the half message cannot be read: {error}") from None
        state = await self._verdict("check", message.msg_id, message)
        end = EndTransactionHeader(
            message.properties.get(PGROUP, self.group),
            header.tran_state_table_offset,
            header.commit_log_offset,
            _ON_THE_WIRE[state],
        )
        transaction_id = header.transaction_id or message.msg_id
        connection.oneway(_end_command(end, message.msg_id, transaction_id, from_check=True))
        outgoing = Outgoing(
            request.code, message.topic, message.msg_id, b"", message.flag, 0, join_properties(message.properties)
        )
        self._trace(outgoing, connection.peer_text, state, transaction_id, from_check=True)

    def _trace(
        self, outgoing: Outgoing, address: str, state: TransactionState, transaction_id: str, *, from_check: bool
    ) -> None:
        if self._tracer is not None:
            self._tracer.transaction_ended(outgoing, address, state.value, transaction_id, from_check=from_check)


def _end_command(header: EndTransactionHeader, msg_id: str, transaction_id: str, *, from_check: bool) -> Command:
    own = {
        "msgId": msg_id,
        "transactionId": transaction_id,
        "fromTransactionCheck": "true" if from_check else "false",
    }
    return Command(RequestCode.END_TRANSACTION, ext={**header_fields(header), **own})
