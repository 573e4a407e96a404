"""What operators ask of a running consumer, through its broker: how far it is, to go elsewhere, to try one message."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from typing import TYPE_CHECKING

from mqctl.client.calling import call
from mqctl.client.engine import Engine
from mqctl.client.held import MIB, HeldQueue
from mqctl.client.listening import RetryLater
from mqctl.client.subscriptions import restore_topic
from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import GetConsumerStatusBody, ResetOffsetBody
from mqctl.remoting.bodies_consumer import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_consumer import (
    ConsumeDirectlyHeader,
    ConsumerTopicHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)
from mqctl.remoting.message import decode_records

if TYPE_CHECKING:
    from mqctl.client.consumer import GroupConsumer
    from mqctl.client.push import PushConsumer


class Inspecting:
    """Loop only. The handlers of one consumer."""

    def __init__(self, consumer: GroupConsumer, engine: Engine) -> None:
        self._consumer = consumer
        self._name_servers = engine.name_servers.addresses
        engine.serve(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader, self.on_reset)
        engine.serve(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerTopicHeader, self.on_status)
        engine.serve(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, self.on_running_info)

    async def on_reset(self, connection: Connection, request: Command, header: ResetOffsetHeader) -> None:
        """Java's consumer rests for 10 s first; here the queues go on elsewhere at once."""
        _check_group(self._consumer, header.group)
        table = bodies.decode(ResetOffsetBody, request.body).offset_table if request.body else {}
        mine = self._consumer.assignment()
        await asyncio.gather(
            *(
                self._consumer.reset(queue, offset)
                for queue, offset in table.items()
                if queue in mine and queue.topic == header.topic
            )
        )

    def on_status(self, connection: Connection, request: Command, header: ConsumerTopicHeader) -> Command:
        _check_group(self._consumer, header.group)
        positions = {
            queue: offset for queue, offset in self._consumer.positions().items() if queue.topic == header.topic
        }
        return request.reply(body=bodies.encode(GetConsumerStatusBody(message_queue_table=positions)))

    def on_running_info(self, connection: Connection, request: Command, header: RunningInfoHeader) -> Command:
        consumer = self._consumer
        _check_group(consumer, header.consumer_group)
        positions = consumer.positions()
        queues = {
            held.queue: _queue_info(held, positions.get(held.queue, held.position)) for held in consumer.held_queues()
        }
        if consumer.orderly:
            for queue in queues.values():
                queue.locked = True  # only queues with the lock are pulled
        info = ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in self._name_servers),
                "PROP_THREADPOOL_CORE_SIZE": str(consumer.concurrency),
                "PROP_CONSUMEORDERLY": str(consumer.orderly).lower(),
                "PROP_CONSUME_TYPE": consumer.consume_type,
                "PROP_CLIENT_VERSION": "V4_9_7",
                "PROP_CONSUMER_START_TIMESTAMP": str(consumer.started_ms),
            },
            subscription_set=consumer.subscription_data(),
            mq_table=queues,
            status_table={data.topic: consumer.meter.status(data.topic) for data in consumer.subscription_data()},
            jstack=_stacks() if header.jstack_enable else None,
        )
        return request.reply(body=bodies.encode(info))


class ConsumingDirectly:
    """Loop only. For a consumer with a listener: one message that an operator sends it."""

    def __init__(self, consumer: PushConsumer, engine: Engine) -> None:
        self._consumer = consumer
        engine.serve(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader, self.on_consume_directly)

    async def on_consume_directly(
        self, connection: Connection, request: Command, header: ConsumeDirectlyHeader
    ) -> Command:
        _check_group(self._consumer, header.consumer_group)
        messages = decode_records(request.body)
        if len(messages) != 1:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"one message is to be consumed, not {len(messages)}")
        message = messages[0]
        message.broker_name = header.broker_name
        restore_topic(message, self._consumer.group)
        begin = time.monotonic()
        result = ConsumeDirectlyResult(order=self._consumer.orderly, consume_result="CR_SUCCESS")
        try:
            await call(self._consumer.listener, message if self._consumer.batch is None else messages)
        except RetryLater:
            result.consume_result = "CR_LATER"
        except Exception as error:
            result.consume_result = "CR_THROW_EXCEPTION"
            result.remark = f"{type(error).__name__}: {error}"
        result.spent_time_mills = int((time.monotonic() - begin) * 1000)
        return request.reply(body=bodies.encode(result))


def _check_group(consumer: GroupConsumer, group: str) -> None:
    if group != consumer.group:
        raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"the consumer group {group!r} is not in this client")


def _queue_info(held: HeldQueue, position: int) -> ProcessQueueInfo:
    return ProcessQueueInfo(
        commit_offset=position,
        cached_msg_min_offset=held.position if len(held) else 0,
        cached_msg_max_offset=held.next_offset - 1 if len(held) else 0,
        cached_msg_count=len(held),
        cached_msg_size_in_mib=held.size_bytes // MIB,
        last_pull_timestamp=held.last_pull_ms,
        last_consume_timestamp=held.last_consume_ms,
    )


def _stacks() -> str:
    """Where every thread is, as Java's clients say under this name."""
    return "\n".join(
        f"thread {number}\n{''.join(traceback.format_stack(frame))}" for number, frame in sys._current_frames().items()
    )
