"""The same clients for scripts: every method waits for its result.

    from mqctl.client.blocking import Producer

    with Producer("group", namesrv="127.0.0.1:9876") as p:
        p.send(Message("topic", b"hello"))

There is one implementation, the asynchronous one. These classes run it on a loop in the background that all
blocking clients of the process share; any thread may call them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from mqctl.background import BackgroundLoop
from mqctl.client import producer as asynchronous
from mqctl.client import pull, push, transactions
from mqctl.client.consumer import GroupConsumer
from mqctl.client.listening import Listener
from mqctl.client.options import ProducerOptions, PullOptions, PushOptions
from mqctl.client.results import SendResult
from mqctl.client.subscriptions import Filter
from mqctl.client.transactions import TransactionListener, TransactionResult
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import Message, ReceivedMessage

T = TypeVar("T")

_making = threading.Lock()
_shared: tuple[int, BackgroundLoop] | None = None


def shared_loop() -> BackgroundLoop:
    """Made when first needed, and anew in a process that was forked: threads do not survive that."""
    global _shared
    with _making:
        if _shared is None or _shared[0] != os.getpid():
            _shared = (os.getpid(), BackgroundLoop("mqctl-client"))
        return _shared[1]


class Startable(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Startable)


class BlockingClient(Generic[C]):
    """What all blocking clients share. `make` builds the asynchronous one, on the loop it will live on."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._loop = shared_loop()
        self._client = self._loop.call(make)

    def start(self) -> None:
        self._wait(self._client.start())

    def close(self) -> None:
        """In a process that was forked off, nothing: the connections are the parent's."""
        if not self._loop.was_forked:
            self._wait(self._client.close())

    def __repr__(self) -> str:
        return f"blocking.{self._client!r}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)


P = TypeVar("P", bound=asynchronous.Producer)


class _AnyProducer(BlockingClient[P]):
    """The methods of `mqctl.client.Producer`, where they are explained."""

    @property
    def client_id(self) -> str:
        return self._client.client_id

    def send(
        self,
        message: Message,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        return self._wait(self._client.send(message, order_key=order_key, queue=queue, timeout=timeout))

    def submit(
        self,
        message: Message,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> Future[SendResult]:
        """Returns a future of `concurrent.futures`; waits first while `max_in_flight` sends are under way."""
        sending = self._wait(self._client.submit(message, order_key=order_key, queue=queue, timeout=timeout))
        return asyncio.run_coroutine_threadsafe(_result_of(sending), self._loop.loop)

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        return self._wait(self._client.send_batch(messages, order_key=order_key, queue=queue, timeout=timeout))

    def send_oneway(self, message: Message, *, order_key: str | None = None, queue: MessageQueue | None = None) -> str:
        return self._wait(self._client.send_oneway(message, order_key=order_key, queue=queue))

    def queues(self, topic: str) -> list[MessageQueue]:
        return self._wait(self._client.queues(topic))

    def recall(self, recall_handle: str, *, timeout: float | None = None) -> str:
        return self._wait(self._client.recall(recall_handle, timeout=timeout))

    def request(self, message: Message, *, timeout: float | None = None) -> ReceivedMessage:
        return self._wait(self._client.request(message, timeout=timeout))

    def reply(self, question: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        return self._wait(self._client.reply(question, body, timeout=timeout))


class Producer(_AnyProducer[asynchronous.Producer]):
    def __init__(
        self, group: str, namesrv: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__(lambda: asynchronous.Producer(group, namesrv, **options))


class TransactionProducer(_AnyProducer[transactions.TransactionProducer]):
    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(lambda: transactions.TransactionProducer(group, listener, namesrv, **options))

    def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout: float | None = None
    ) -> TransactionResult:
        return self._wait(self._client.send_in_transaction(message, argument, timeout=timeout))


G = TypeVar("G", bound=GroupConsumer)


class _AnyConsumer(BlockingClient[G]):
    @property
    def client_id(self) -> str:
        return self._client.client_id

    def assignment(self) -> set[MessageQueue]:
        return self._loop.call(self._client.assignment)

    def commit(self) -> None:
        self._wait(self._client.commit())

    def seek(self, queue: MessageQueue, offset: int) -> None:
        self._wait(self._client.seek(queue, offset))


class PushConsumer(_AnyConsumer[push.PushConsumer]):
    """`mqctl.client.PushConsumer`. Plain functions are called in threads; close it from none of these."""

    def __init__(
        self,
        group: str,
        listener: Listener,
        subscribe: Mapping[str, Filter] | str,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        super().__init__(lambda: push.PushConsumer(group, listener, subscribe, namesrv, **options))


class PullConsumer(_AnyConsumer[pull.PullConsumer]):
    """The methods of `mqctl.client.PullConsumer`, where they are explained."""

    def __init__(
        self,
        group: str,
        subscribe: Mapping[str, Filter] | str | None = None,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[PullOptions],
    ) -> None:
        super().__init__(lambda: pull.PullConsumer(group, subscribe, namesrv, **options))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._loop.was_forked:
            self._wait(self._client.__aexit__(kind))

    def commit(self, positions: Mapping[MessageQueue, int] | None = None) -> None:
        self._wait(self._client.commit(positions))

    def commit_async(self, positions: Mapping[MessageQueue, int] | None = None) -> Future[None]:
        """Returns a future of `concurrent.futures`."""
        committing = self._loop.call(lambda: self._client.commit_async(positions))
        return asyncio.run_coroutine_threadsafe(_result_of(committing), self._loop.loop)

    def poll(self, timeout: float = pull.POLL_SECONDS, max_messages: int = pull.MAX_MESSAGES) -> list[ReceivedMessage]:
        return self._wait(self._client.poll(timeout, max_messages))

    def queues(self, topic: str) -> list[MessageQueue]:
        return self._wait(self._client.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        self._wait(self._client.assign(queues))

    def pause(self, *queues: MessageQueue) -> None:
        self._loop.call(lambda: self._client.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        self._loop.call(lambda: self._client.resume(*queues))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        self._wait(self._client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        self._wait(self._client.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, moment: datetime) -> None:
        self._wait(self._client.seek_to_time(queue, moment))

    def committed(self, queue: MessageQueue) -> int | None:
        return self._wait(self._client.committed(queue))


async def _result_of(work: asyncio.Future[T]) -> T:
    return await work
