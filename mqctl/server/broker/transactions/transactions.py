"""Transactions as producers see them: a half message is stored out of sight, then committed or rolled back."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import TRANS_CHECK_MAX_TOPIC, TRANS_HALF_TOPIC
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import EndTransactionHeader, ResumeCheckHalfMessageHeader
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.transactions.halves import Half, HalfTable, read_record
from mqctl.server.broker.transactions.messages import (
    COPY_ROOM,
    committed_message,
    half_copy,
    half_message,
    op_message,
)
from mqctl.server.loop import HandlerTable
from mqctl.store import record
from mqctl.store.properties import PGROUP, REAL_TOPIC, TRAN_MSG, get_property
from mqctl.store.record import Record
from mqctl.store.store import MessageStore, NewMessage

log = logging.getLogger(__name__)

COMMIT: Final = record.SYS_TRANSACTION_COMMIT
ROLLBACK: Final = record.SYS_TRANSACTION_ROLLBACK


class Transactions:
    """Loop only.

    Under Apache's broker a transaction that is ended twice, by a producer that repeats itself or by one that
    answers a question while its first word is still on the way, is delivered twice. Here the first word counts.
    """

    def __init__(self, config: BrokerConfig, store: MessageStore, acks: Acks, offsets: ConsumerOffsets) -> None:
        self._config = config
        self._store = store
        self._acks = acks
        self.halves = HalfTable(store, offsets)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.END_TRANSACTION: (EndTransactionHeader, self.on_end),
            RequestCode.RESUME_CHECK_HALF_MESSAGE: (ResumeCheckHalfMessageHeader, self.on_resume_check),
        }

    def load(self) -> None:
        """Before the first request, when store and offsets are loaded."""
        self.halves.load()
        self._finish_commit()

    # -- the first half -----------------------------------------------------------------------------

    def detour(self, message: NewMessage, properties: str) -> NewMessage:
        """Takes half messages out of their topic.

        A committed message keeps the mark TRAN_MSG, so one that a consumer sends back carries it too, but is a
        half no more."""
        claimed = message.sys_flag & record.SYS_TRANSACTION_MASK
        if message.reconsume_times > 0:
            if claimed in (record.SYS_TRANSACTION_PREPARED, ROLLBACK):
                return msgspec.structs.replace(message, sys_flag=message.sys_flag - claimed)
            return message
        if (get_property(properties, TRAN_MSG) or "").lower() != "true":
            if claimed in (record.SYS_TRANSACTION_PREPARED, ROLLBACK):  # Apache's broker stores it where none sees it
                raise RequestFailed(
                    ResponseCode.MESSAGE_ILLEGAL, f"the sysFlag speaks of a transaction, but {TRAN_MSG} is not true"
                )
            return message
        if self._config.reject_transaction_message:
            raise RequestFailed(
                ResponseCode.NO_PERMISSION, "this broker takes no transactions (rejectTransactionMessage is on)"
            )
        half = half_message(message, properties)
        if len(half.properties) + COPY_ROOM > record.MAX_PROPERTIES:
            raise RequestFailed(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message properties have {len(half.properties)} bytes with those of the transaction, at most "
                f"{record.MAX_PROPERTIES - COPY_ROOM} fit",
            )
        return half

    # -- the end ------------------------------------------------------------------------------------

    async def on_end(self, connection: Connection, request: Command, header: EndTransactionHeader) -> Command | None:
        """Answers once the message is where consumers find it, or can never get there. A producer that does not
        know yet gets no answer, as under Java; it will be asked."""
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            return None
        found = self._half_of(header)
        half = self.halves.find(found)
        if half is None:
            return self._ended_before(request, header)
        async with half.lock:
            if not half.is_open:
                return self._ended_before(request, header)
            await self._end(half, found, header.commit_or_rollback)
        return request.reply()

    def _half_of(self, header: EndTransactionHeader) -> Record:
        """Raises RequestFailed unless the three things that the producer says fit one half message."""
        found = read_record(self._store, header.commit_log_offset)
        if found is None or found.topic != TRANS_HALF_TOPIC:
            raise _wrong(f"no half message is at log offset {header.commit_log_offset}")
        group = get_property(found.properties, PGROUP)
        if group != header.producer_group:
            raise _wrong(f"this transaction belongs to the producer group {group!r}, not {header.producer_group!r}")
        if found.queue_offset != header.tran_state_table_offset:
            raise _wrong(
                f"the half message at log offset {header.commit_log_offset} has tranStateTableOffset "
                f"{found.queue_offset}, not {header.tran_state_table_offset}"
            )
        return found

    def _ended_before(self, request: Command, header: EndTransactionHeader) -> Command:
        if self.halves.outcome(header.tran_state_table_offset) == header.commit_or_rollback:
            return request.reply(remark="this transaction has ended before, in the same way")
        raise _wrong("this transaction is no longer open: it was committed, rolled back, or given up")

    async def _end(self, half: Half, found: Record, outcome: int) -> None:
        if self._store.refusing:
            raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, self._store.refusing)
        try:
            if outcome == COMMIT:
                self._store.put(committed_message(found, half.phys_offset))
            self.put_ops(half.copies)
        except StoreError as error:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, error.message) from None
        try:
            await self._acks.stored()
        except StoreError as error:
            raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, error.message) from None
        self.halves.end(half, outcome)

    def put_ops(self, half_offsets: list[int]) -> None:
        """Marks halves as done, in the same write as what was put before: after a crash there is no mark
        without the message that it rests on. All copies are marked, since Apache's broker would ask for each."""
        for half_offset in half_offsets:
            op = self._store.put(op_message(half_offset, self._store.now_ms(), self._store.store_host))
            self.halves.note_op(op.queue_offset, half_offset)

    def _finish_commit(self) -> None:
        """At the start: a crash can cut the log between a committed message and its op message. They are
        written together, so this can only have happened to the last record there is."""
        last = max(self._store.queues.values(), key=lambda queue: queue.end_of_log(), default=None)
        entry = last.entry(last.max_offset - 1) if last is not None else None
        found = read_record(self._store, entry[0]) if entry is not None else None
        if found is None or found.sys_flag & record.SYS_TRANSACTION_MASK != COMMIT:
            return
        prepared = read_record(self._store, found.prepared_offset)
        half = self.halves.find(prepared) if prepared is not None and _is_commit_of(prepared, found) else None
        if half is not None:
            log.warning("transaction %d: committed, but not marked as such; done now", half.queue_offset)
            self.put_ops(half.copies)
            try:
                self._store.commit()
            except StoreError as error:
                log.error("%s", error)  # on a full disk the broker can still be read from
            self.halves.end(half, COMMIT)

    # -- once more ----------------------------------------------------------------------------------

    async def on_resume_check(
        self, connection: Connection, request: Command, header: ResumeCheckHalfMessageHeader
    ) -> Command:
        """A transaction that was given up becomes open again, and its producers are asked anew."""
        try:
            _, phys_offset = record.decode_msg_id(header.msg_id)
        except ValueError as error:
            raise _wrong(f"{header.msg_id[:64]!r} is not an offset message id: {error}") from None
        found = read_record(self._store, phys_offset)
        if found is None or found.topic != TRANS_CHECK_MAX_TOPIC:
            raise _wrong(f"{header.msg_id} is not a message in {TRANS_CHECK_MAX_TOPIC}")
        try:
            self._store.put(half_copy(found, checks=0))
            await self._acks.stored()
        except StoreError as error:
            raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, error.message) from None
        return request.reply()


def _is_commit_of(prepared: Record, found: Record) -> bool:
    """A committed message that was sent back by a consumer still says so, but not of which half."""
    return prepared.topic == TRANS_HALF_TOPIC and get_property(prepared.properties, REAL_TOPIC) == found.topic


def _wrong(reason: str) -> RequestFailed:
    return RequestFailed(ResponseCode.SYSTEM_ERROR, reason)
