"""What programs do wrong, and whether they are told so at once and in words that help."""

from __future__ import annotations

import os
import traceback
from typing import Any

import pytest

from mqctl.client import (
    ConfigError,
    Message,
    MqError,
    Producer,
    PushConsumer,
    RequestTimeout,
    ResponseError,
    Sql,
    blocking,
)
from mqctl.client.outgoing import Encoder
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop
from tests.unit.client.embedded import Inbox, send


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        (("g", None, "t"), {}, "the listener is None"),
        (("g", print, ["t"]), {}, "at least one topic"),
        (("g", print, {}), {}, "at least one topic"),
        (("g", print, "no topic"), {}, "'no topic' is no name of a topic"),
        (("g", print, "t"), {"start": "FIRST"}, "start is 'FIRST'"),
        (("no group", print, "t"), {}, "'no group' is no name of a group"),
        (("g", print, "t", "localhost"), {}, "'localhost' is not an address"),
        (("g", print, "t", ["a:1", "b"]), {}, "'b' is not an address"),
    ],
)
def test_consumers_that_cannot_work_are_not_made(
    arguments: tuple[Any, ...], options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        PushConsumer(*arguments, **options)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"body": "text"}, "bytes, not str: encode it"),
        ({"body": None}, "bytes, not NoneType"),
        ({"properties": {"amount": 5}}, "property 'amount': 5"),
        ({"properties": {"amount": 0}}, "property 'amount': 0"),
    ],
)
def test_what_is_no_text_or_no_bytes_is_named(fields: dict[str, Any], complaint: str) -> None:
    message = Message("t", **fields)
    with pytest.raises(TypeError, match=complaint):
        Encoder("g").single(message)
    with pytest.raises(TypeError, match=complaint):
        Encoder("g").batch([message])


@in_loop
async def test_a_client_starts_once(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    inbox = Inbox()
    consumer = PushConsumer("g", inbox, "t", mq.namesrv)
    producer = Producer("g", mq.namesrv)
    with pytest.raises(MqError, match="is not started"):
        await producer.send(Message("t", b"x"))
    for client in (producer, consumer):
        async with client:
            with pytest.raises(MqError, match="is started already"):
                await client.start()
            if client is consumer:  # and it works as before
                await send(mq, "t", [b"x"])
                await inbox.wait(1)
        with pytest.raises(MqError, match="is closed"):
            await client.start()
        await client.close()


@in_loop
async def test_a_filter_that_the_broker_refuses_is_an_error_at_the_start(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    consumer = PushConsumer("g", Inbox(), {"t": Sql("a > 5")}, mq.namesrv)
    with pytest.raises(ResponseError, match="enablePropertyFilter"):
        await consumer.start()
    await consumer.close()


@in_loop
async def test_no_time_at_all_is_said_to_be_too_little(mq: EmbeddedBroker) -> None:
    async with Producer("g", mq.namesrv) as producer:
        await producer.send(Message("t", b"x"))
        with pytest.raises(RequestTimeout, match="no broker could be asked within 0 s"):
            await producer.send(Message("t", b"x"), timeout=0)


def test_tracebacks_show_the_hint() -> None:
    error = ConfigError("it is wrong", hint="make it right")
    assert "".join(traceback.format_exception(error)).endswith("ConfigError: it is wrong\nhint: make it right\n")


def test_a_blocking_client_from_before_a_fork_says_so_in_the_child(mq: EmbeddedBroker) -> None:
    reading, writing = os.pipe()
    with blocking.Producer("g", mq.namesrv) as producer:
        producer.send(Message("t", b"parent"))
        child = os.fork()
        if child == 0:
            try:
                producer.close()  # the parent's, so nothing happens
                producer.send(Message("t", b"child"))
            except RuntimeError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as answer:
            assert b"make a new one in the child" in answer.read()
        producer.send(Message("t", b"parent"))
    assert len(mq.messages("t")) == 2


def test_clients_say_who_they_are() -> None:
    producer = blocking.Producer("g", "127.0.0.1:1", client_id="me")
    assert repr(producer) == "blocking.Producer('g', client_id='me')"
