"""Asking producers how their transactions ended, when they do not say so by themselves."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Final

from mqctl.names import TRANS_CHECK_MAX_TOPIC, TRANS_HALF_TOPIC
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.clients import Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.topics import Topics
from mqctl.server.broker.transactions.halves import Half
from mqctl.server.broker.transactions.messages import given_up_message, half_copy, question_body, real_place
from mqctl.server.broker.transactions.transactions import Transactions
from mqctl.server.clock import Clock
from mqctl.store import record
from mqctl.store.properties import PGROUP, UNIQ_KEY, get_property
from mqctl.store.record import SYS_TRANSACTION_ROLLBACK, Record
from mqctl.store.store import Appended, MessageStore, NewMessage

log = logging.getLogger(__name__)

# How many halves are looked at before other work gets its turn.
READ_SLICE: Final = 64
# How many are asked about with one write to the log. Each may have 4 MiB.
ASK_SLICE: Final = 16


class TransactionChecks:
    """Loop only. One round at a time.

    A question goes out only after the half was stored once more, with the number of the question in it: so the
    count survives a restart, and the place where a start begins to read moves on.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        store: MessageStore,
        acks: Acks,
        clients: Clients,
        transactions: Transactions,
        clock: Clock,
    ) -> None:
        self._config = config
        self._topics = topics
        self._store = store
        self._acks = acks
        self._clients = clients
        self._transactions = transactions
        self._halves = transactions.halves
        self._clock = clock
        self._turns = itertools.count()
        self._absent: set[str] = set()  # groups without a producer, as seen in this round

    async def round(self) -> None:
        """Raises StoreError when the log cannot be written; what was not asked is asked in the next round."""
        self._topics.ensure(TRANS_HALF_TOPIC, 1)
        self._absent.clear()
        while self._halves.catch_up(READ_SLICE):
            await asyncio.sleep(0)
        if not self._store.refusing:
            now_ms = self._clock.now_ms()
            due = [half for half in self._halves.open_halves() if self._is_due(half, now_ms)]
            for start in range(0, len(due), ASK_SLICE):
                await asyncio.gather(*(self._check(half, now_ms) for half in due[start : start + ASK_SLICE]))
        self._halves.save_progress()

    def _is_due(self, half: Half, now_ms: int) -> bool:
        """A producer whose clock is ahead of ours is asked at once, unless its message asks for patience."""
        if self._is_hopeless(half, now_ms):
            return True
        age_ms = now_ms - half.born_timestamp
        if half.immunity_s is not None:
            return age_ms > half.immunity_s * 1000
        return age_ms < 0 or age_ms > self._config.transaction_time_out

    def _is_hopeless(self, half: Half, now_ms: int) -> bool:
        too_old = now_ms - half.born_timestamp > self._config.file_reserved_time * 3600 * 1000
        return too_old or half.checks >= self._config.transaction_check_max

    async def _check(self, half: Half, now_ms: int) -> None:
        async with half.lock:
            if not half.is_open:
                return
            found = self._halves.read(half)
            if found is None:
                log.error("transaction %d: its half message is gone from the log", half.queue_offset)
                self._halves.end(half, SYS_TRANSACTION_ROLLBACK)
            elif self._is_hopeless(half, now_ms):
                await self._give_up(half, found)
            else:
                await self._ask(half, found)

    async def _give_up(self, half: Half, found: Record) -> None:
        """Out of the way, but kept: RESUME_CHECK_HALF_MESSAGE brings it back."""
        self._topics.ensure(TRANS_CHECK_MAX_TOPIC, 1)
        log.warning(
            "transaction %d of group %s: given up after %d questions, moved to %s",
            half.queue_offset,
            get_property(found.properties, PGROUP),
            half.checks,
            TRANS_CHECK_MAX_TOPIC,
        )
        self._store.put(given_up_message(found))
        self._transactions.put_ops(half.copies)
        await self._acks.stored()
        self._halves.end(half, SYS_TRANSACTION_ROLLBACK)

    async def _ask(self, half: Half, found: Record) -> None:
        message = half_copy(found, half.checks + 1)
        copy = self._store.put(message)
        self._transactions.put_ops([half.queue_offset])
        await self._acks.stored()
        self._halves.renew(half, copy)
        self._send_question(message, found, copy)

    def _send_question(self, message: NewMessage, found: Record, copy: Appended) -> None:
        """A group without a living producer is not asked; the attempt counts all the same, as under Java."""
        group = get_property(found.properties, PGROUP) or ""
        producer = self._producer_of(group)
        if producer is None:
            if group not in self._absent:
                log.warning("producer group %s: has open transactions, but nobody is connected", group)
            self._absent.add(group)
            return
        ext = {
            "commitLogOffset": str(copy.phys_offset),
            "offsetMsgId": record.encode_msg_id(self._store.store_host, copy.phys_offset),
            "tranStateTableOffset": str(copy.queue_offset),
        }
        unique_key = get_property(found.properties, UNIQ_KEY)
        if unique_key:
            ext |= {"msgId": unique_key, "transactionId": unique_key}
        body = question_body(message, real_place(found), copy, self._store.store_host)
        producer.oneway(Command(RequestCode.CHECK_TRANSACTION_STATE, ext=ext, body=body))

    def _producer_of(self, group: str) -> Connection | None:
        """Each living producer of the group in its turn: any of them must know how its transactions ended."""
        living = [connection for connection in self._clients.producers.get(group, {}) if connection.is_open]
        return living[next(self._turns) % len(living)] if living else None
