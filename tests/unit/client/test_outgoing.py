"""Messages on their way out: properties, ids, compression, limits."""

from __future__ import annotations

import pytest

from mqctl.client.outgoing import Encoder
from mqctl.errors import MqError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.compression import Compression, decompress
from mqctl.remoting.message import Message, decode_batch
from mqctl.store.properties import parse_properties
from mqctl.store.record import SYS_COMPRESSED, SYS_TRANSACTION_PREPARED

QUEUE = MessageQueue("t", "broker-a", 3)


def test_a_message_becomes_a_request() -> None:
    encoder = Encoder("g", clock=lambda: 1234.5)
    message = Message("t", b"body", tags="a", keys=["k1", "k2"], flag=7, properties={"own": "x"})
    outgoing = encoder.single(message)
    request = encoder.request(outgoing, QUEUE).as_command()
    fields = request.fields()
    assert (request.code, request.body) == (310, b"body")
    assert {name: fields[name] for name in "abcdefghjkmn"} == {
        "a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1234500", "h": "7", "j": "0",
        "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    assert parse_properties(fields["i"]) == {
        "own": "x", "KEYS": "k1 k2", "TAGS": "a", "WAIT": "true", "UNIQ_KEY": outgoing.msg_id,
    }  # fmt: skip
    assert len(outgoing.msg_id) == 32


@pytest.mark.parametrize("kind", list(Compression))
def test_large_bodies_are_compressed(kind: Compression) -> None:
    encoder = Encoder("g", compress_over=100, kind=kind)
    assert encoder.single(Message("t", bytes(100))).sys_flag == 0
    outgoing = encoder.single(Message("t", bytes(101)), half=True)
    assert outgoing.sys_flag == SYS_COMPRESSED | kind | SYS_TRANSACTION_PREPARED
    assert decompress(outgoing.body, outgoing.sys_flag) == bytes(101)


def test_text_that_utf_8_does_not_have_is_refused_before_anything_is_sent() -> None:
    for message in (Message("t", keys="\ud800"), Message("t", properties={"own": "\ud800"})):
        with pytest.raises(MqError, match="surrogates"):
            Encoder("g").single(message)
        with pytest.raises(MqError, match="surrogates"):
            Encoder("g").batch([message])


def test_delays_are_properties() -> None:
    texts = [
        parse_properties(Encoder("g").single(message).properties)
        for message in (
            Message("t", delay_level=3),
            Message("t", delay_ms=1500),
            Message("t", deliver_at_ms=1_700_000_000_000),
        )
    ]
    assert texts[0]["DELAY"] == "3"
    assert texts[1]["TIMER_DELAY_MS"] == "1500"
    assert texts[2]["TIMER_DELIVER_MS"] == "1700000000000"


def test_a_batch_gives_each_message_its_own_id() -> None:
    encoder = Encoder("g")
    outgoing = encoder.batch([Message("t", b"%d" % number, tags=f"T{number}") for number in range(3)])
    request = encoder.request(outgoing, QUEUE).as_command()
    assert (request.code, request.fields()["m"]) == (320, "true")
    assert parse_properties(request.fields()["i"]) == {"WAIT": "true"}
    entries = decode_batch(request.body)
    assert [entry.body for entry in entries] == [b"0", b"1", b"2"]
    assert ",".join(parse_properties(entry.properties.decode())["UNIQ_KEY"] for entry in entries) == outgoing.msg_id


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "needs a message"),
        ([Message("t", delay_level=1)], "cannot be delayed"),
        ([Message("t", delay_ms=1)], "cannot be delayed"),
        ([Message("t"), Message("u")], "same topic"),
        ([Message("t"), Message("t", wait_store_ok=False)], "same topic"),
        ([Message("t", bytes(60)), Message("t", bytes(60))], "100 are allowed"),
        ([Message("t", properties={"a\x01": "b"})], "separator"),
    ],
)
def test_batches_that_no_broker_takes(messages: list[Message], complaint: str) -> None:
    with pytest.raises(MqError, match=complaint):
        Encoder("g", max_message_size=100).batch(messages)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (Message(""), "is no name of a topic"),
        (Message("t", bytes(101)), "101 bytes; 100 are allowed"),
        (Message("t", properties={"UNIQ_KEY": "mine"}), "UNIQ_KEY.*belongs to RocketMQ"),
        (Message("t", properties={"a": "b\x02c"}), "separator"),
    ],
)
def test_messages_that_no_broker_takes(message: Message, complaint: str) -> None:
    with pytest.raises(MqError, match=complaint):
        Encoder("g", max_message_size=100).single(message)
