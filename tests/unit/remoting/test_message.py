"""Properties, messages out of records, batches, unique ids."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.remoting.compression import Compression, CompressionError, compress
from mqctl.remoting.message import (
    BatchEntry,
    BatchError,
    Message,
    ReceivedMessage,
    decode_batch,
    decode_records,
    encode_batch,
)
from mqctl.remoting.unique_id import UniqueIdGenerator, born_time_ms, local_ip
from mqctl.store import properties, record
from mqctl.store.properties import RESERVED_NAMES, format_properties, parse_properties
from mqctl.store.record import RecordError

# -- properties -------------------------------------------------------------------------------------


def test_properties_of_a_real_record() -> None:
    text = "KEYS\x01k1 k2\x02UNIQ_KEY\x017F00000100000000000000000000AB01\x02CLUSTER\x01FxCluster\x02"
    text += "TAGS\x01TagA"
    found = {
        "KEYS": "k1 k2",
        "UNIQ_KEY": "7F00000100000000000000000000AB01",
        "CLUSTER": "FxCluster",
        "TAGS": "TagA",
    }
    assert parse_properties(text) == parse_properties(text + "\x02") == found
    assert format_properties(found) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("\x02\x02", {}),
        ("a\x01", {}),
        ("\x01b", {}),
        ("a", {}),
        ("a\x011\x02a\x012", {"a": "2"}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
        ("x\x02a\x01b\x02\x02c\x01d\x02", {"a": "b", "c": "d"}),
    ],
)
def test_odd_property_texts(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_empty_names_and_values_are_not_written() -> None:
    assert format_properties({"": "x", "a": "", "b": "c"}) == "b\x01c"


@pytest.mark.parametrize("pair", [("a\x01", "b"), ("a\x02", "b"), ("a", "b\x02UNIQ_KEY\x01forged")])
def test_separators_cannot_be_smuggled_in(pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="separator"):
        format_properties(dict([pair]))


words = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(words, words))
def test_properties_round_trip(table: dict[str, str]) -> None:
    assert parse_properties(format_properties(table)) == table


@given(st.text())
def test_any_text_parses_to_something_writable(text: str) -> None:
    found = parse_properties(text)
    assert parse_properties(format_properties(found)) == found


def test_reserved_names() -> None:
    assert len(RESERVED_NAMES) == 31  # as many as MessageConst of 4.9.7 lists
    assert properties.UNIQ_KEY in RESERVED_NAMES
    assert properties.CHECK_IMMUNITY_TIME_IN_SECONDS not in RESERVED_NAMES


# -- messages ---------------------------------------------------------------------------------------


def test_wire_properties() -> None:
    message = Message("t", b"x", tags="A", keys=["k1", "k2"], delay_level=3, properties={"u": "1", "TAGS": "own"})
    assert message.wire_properties() == {
        "u": "1", "TAGS": "A", "KEYS": "k1 k2", "DELAY": "3", "WAIT": "true",
    }  # fmt: skip
    assert message.properties == {"u": "1", "TAGS": "own"}
    assert Message("t", keys="k1 k2", wait_store_ok=False).wire_properties() == {
        "KEYS": "k1 k2",
        "WAIT": "false",
    }


# One record taken from a real 4.9.7 commit log.
REAL_RECORD = bytes.fromhex(
    "000000b6 daa320a7 0731d904 00000000 00000000 0000000000000000 0000000000000000 00000000"
    "000001a1ed46e925 7f000001 0000a67c 000001a1ed46e94d 7f000001 000051af 00000000 0000000000000000"
    "00000006 68656c6c6f31 05 66785f7431 0050"
    "4b455953016b31206b3202554e49515f4b455901374630303030303130303030303030303030303030303030303030304142303102"
    "434c5553544552014678436c757374657202544147530154616741"
)


def test_a_real_record() -> None:
    first, second = decode_records(REAL_RECORD * 2, check_crc=True)
    assert first == second
    assert (first.topic, first.body, first.tags, first.keys) == ("fx_t1", b"hello1", "TagA", ["k1", "k2"])
    assert first.born_host == ("127.0.0.1", 42620)
    assert first.store_timestamp - first.born_timestamp == 40
    assert (first.size_bytes, first.queue_offset, first.reconsume_times, first.delay_level) == (182, 0, 0, 0)
    assert first.msg_id == "7F00000100000000000000000000AB01"
    assert first.offset_msg_id == "7F000001000051AF0000000000000000"


def stored(body: bytes, sys_flag: int, text: str = "") -> bytes:
    host = bytes([10, 0, 0, 1]) + pack(">i", 10911)
    rest = pack(">iiiqqiq", 0, 1, 4, 2, 3, sys_flag, 5) + host + pack(">q", 6) + host + pack(">iq", 7, 8)
    rest += pack(">i", len(body)) + body + b"\x01t" + pack(">h", len(text.encode())) + text.encode()
    return pack(">iI", 8 + len(rest), 0xDAA320A7) + rest


@pytest.mark.parametrize("kind", list(Compression))
def test_compressed_bodies_are_expanded_on_use(kind: Compression) -> None:
    packed, flags = compress(b"x" * 5000, kind)
    (message,) = decode_records(stored(packed, flags))
    assert message.stored_body == packed
    assert message.body == b"x" * 5000
    assert message.body is message.body
    assert message.msg_id == message.offset_msg_id == "0A00000100002A9F0000000000000003"


def test_a_damaged_body_does_not_hide_its_neighbours() -> None:
    before, damaged, after = decode_records(stored(b"a", 0) + stored(b"junk", 0x301) + stored(b"b", 0))
    assert (before.body, after.body) == (b"a", b"b")
    with pytest.raises(CompressionError):
        _ = damaged.body


@pytest.mark.parametrize(("text", "level"), [("3", 3), ("", 0), ("x", 0), ("-1", 0), ("²", 0), ("9" * 5000, 0)])
def test_delay_levels(text: str, level: int) -> None:
    (message,) = decode_records(stored(b"", 0, f"DELAY\x01{text}"))
    assert message.delay_level == level


def test_cut_records() -> None:
    for end in range(1, len(REAL_RECORD)):
        with pytest.raises(record.RecordError):
            decode_records(REAL_RECORD[:end])
    assert decode_records(b"") == []


@given(
    st.binary(max_size=40),
    st.sampled_from([0, 1, 8, 0x10, 0x20, 0x30]),
    st.dictionaries(words, words, max_size=3),
    st.integers(-1, 200),
)
def test_the_quick_way_finds_what_the_careful_one_does(
    body: bytes, sys_flag: int, table: dict[str, str], damaged_at: int
) -> None:
    data = bytearray(stored(body, sys_flag, format_properties(table)) + REAL_RECORD)
    if damaged_at >= 0:
        data[damaged_at % len(data)] ^= 0x41

    def carefully() -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        at = 0
        while at < len(data):
            found.append(ReceivedMessage.from_record(record.parse(data, at)))
            at += found[-1].size_bytes
        return found

    try:
        expected = carefully()
    except RecordError:
        with pytest.raises(RecordError):
            decode_records(bytes(data))
    else:
        assert decode_records(bytes(data)) == expected


@given(st.binary(max_size=300))
def test_hostile_records(data: bytes) -> None:
    with suppress(record.RecordError):
        decode_records(data)


@given(st.data())
def test_damaged_records(data: st.DataObject) -> None:
    damaged = bytearray(REAL_RECORD * 2)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(record.RecordError):
        decode_records(bytes(damaged))


# -- batches ----------------------------------------------------------------------------------------

# MessageDecoder.encodeMessages of 4.9.7 for Message("t", "x") and Message("t", "tagA", "k1 k2", 7, "hello").
JAVA_BATCH = bytes.fromhex(
    "0000002000000000000000000000000000000001780009574149540174727565"
    "000000390000000000000000000000070000000568656c6c6f001e4b455953016b31206b320257414954017472756502544147530174616741"
)
# The same from 5.5.0, with its trailing separators.
JAVA_BATCH_5 = bytes.fromhex(
    "000000210000000000000000000000000000000178000a57414954017472756502"
    "0000003a0000000000000000000000070000000568656c6c6f001f4b455953016b31206b32025741495401747275650254414753017461674102"
)


@pytest.mark.parametrize("data", [JAVA_BATCH, JAVA_BATCH_5], ids=["4.9.7", "5.5.0"])
def test_batches_of_java(data: bytes) -> None:
    first, second = decode_batch(data)
    assert (first.flag, first.body, parse_properties(first.properties.decode())) == (
        0,
        b"x",
        {"WAIT": "true"},
    )
    assert (second.flag, second.body) == (7, b"hello")
    assert parse_properties(second.properties.decode()) == {"KEYS": "k1 k2", "WAIT": "true", "TAGS": "tagA"}


def test_our_batches() -> None:
    assert encode_batch([Message("t", b"x")]) == JAVA_BATCH[:32]
    assert decode_batch(encode_batch([])) == []
    message = Message("t", b"hello", flag=-1, wait_store_ok=False, properties={"u": "é"})
    assert decode_batch(encode_batch([message])) == [BatchEntry(-1, b"hello", "u\x01é\x02WAIT\x01false".encode())]


def test_properties_beyond_their_length_field() -> None:
    with pytest.raises(BatchError, match="32767"):
        encode_batch([Message("t", properties={"u": "x" * 32767})])


def entry(total: int, body_length: int, body: bytes, properties_length: int, text: bytes) -> bytes:
    return pack(">iiiii", total, 0, 0, 0, body_length) + body + pack(">h", properties_length) + text


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        entry(22, 0, b"", 0, b"")[:-1],
        entry(23, 0, b"", 0, b""),
        entry(21, 0, b"", 0, b""),
        entry(0, 0, b"", 0, b""),
        entry(-22, 0, b"", 0, b""),
        entry(22, -1, b"", 0, b""),
        entry(22, -(2**31), b"", 0, b""),
        entry(22, 2**31 - 1, b"", 0, b""),
        entry(23, 2, b"x", 0, b""),
        entry(22, 0, b"", -1, b""),
        entry(22, 0, b"", 1, b"x"),
        entry(24, 0, b"", 1, b"x"),
        entry(22, 0, b"", 0, b"") + b"tail",
    ],
)
def test_batches_that_do_not_add_up(data: bytes) -> None:
    with pytest.raises(BatchError):
        decode_batch(data)


def test_a_cut_batch() -> None:
    whole = {0: 0, 32: 1}
    for end in range(len(JAVA_BATCH)):
        if end in whole:
            assert len(decode_batch(JAVA_BATCH[:end])) == whole[end]
        else:
            with pytest.raises(BatchError):
                decode_batch(JAVA_BATCH[:end])


@given(st.binary(max_size=200))
def test_hostile_batches(data: bytes) -> None:
    with suppress(BatchError):
        decode_batch(data)


flags = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(flags, st.binary(max_size=50), st.dictionaries(words, words, max_size=3)), max_size=4))
def test_batch_round_trip(parts: list[tuple[int, bytes, dict[str, str]]]) -> None:
    messages = [Message("t", body, flag=flag, properties=table) for flag, body, table in parts]
    back = decode_batch(memoryview(encode_batch(messages)))
    assert [(e.flag, e.body) for e in back] == [(m.flag, m.body) for m in messages]
    assert [parse_properties(e.properties.decode()) for e in back] == [m.wire_properties() for m in messages]


# -- unique ids -------------------------------------------------------------------------------------


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOV_1 = 1_793_491_200_000  # 2026-11-01T00:00Z
DEC_1 = NOV_1 + 30 * 86_400_000


def generator(*times: int, ip: str = "10.1.2.3") -> UniqueIdGenerator:
    return UniqueIdGenerator(iter(times).__next__, ip=ip, pid=0x12345, token=0x1DBD16A6)


@pytest.mark.usefixtures("in_utc")
def test_layout() -> None:
    make = generator(NOV_1, NOV_1 + 1, NOV_1 + 0x598FD0B5)
    assert make() == "0A01020323451DBD16A6000000000000"
    assert make() == "0A01020323451DBD16A6000000010001"
    assert make() == "0A01020323451DBD16A6598FD0B50002"


@pytest.mark.usefixtures("in_utc")
def test_ipv6() -> None:
    made = generator(NOV_1 + 0x598FD0B5, ip="fd00::2")()
    assert made == "FD00000000000000000000000000000223451DBD16A6598FD0B50000"
    assert born_time_ms(made, NOV_1 + 0x598FD0B5 + 1) == NOV_1 + 0x598FD0B5


@pytest.mark.usefixtures("in_utc")
def test_the_end_of_a_month() -> None:
    make = generator(DEC_1 - 1, DEC_1, DEC_1 - 5)
    assert make()[20:28] == f"{30 * 86_400_000 - 1:08X}"  # more than a signed int32 holds
    assert make()[20:28] == "00000000"
    assert make()[20:28] == "00000000"  # the clock stepped back over the start


@pytest.mark.usefixtures("in_utc")
def test_time_of_an_id() -> None:
    made = generator(NOV_1 + 5000)()
    assert born_time_ms(made, NOV_1 + 6000) == NOV_1 + 5000
    assert born_time_ms(made, DEC_1 + 1000) == NOV_1 + 5000  # not yet reached in December: last month's
    january = DEC_1 + 31 * 86_400_000
    assert born_time_ms(generator(january - 1)(), january + 1) == january - 1  # over the turn of the year


@pytest.mark.parametrize("text", ["", "7F", "zz" * 16, "00" * 17])
def test_what_is_not_an_id(text: str) -> None:
    with pytest.raises(ValueError):
        born_time_ms(text, NOV_1)


def test_the_counter_wraps_and_ids_differ() -> None:
    make = UniqueIdGenerator(lambda: NOV_1, ip="10.1.2.3")
    made = [make() for _ in range(0x10001)]
    assert len(set(made[:-1])) == 0x10000
    assert made[0] == made[-1]  # 65536 within one millisecond is more than a producer can make


def test_real_defaults() -> None:
    before = time.time_ns() // 1_000_000
    made = UniqueIdGenerator()()
    assert len(made) == 32
    assert int(made[8:12], 16) == os.getpid() & 0xFFFF
    assert before <= born_time_ms(made, time.time_ns() // 1_000_000 + 1)
    assert local_ip().count(".") == 3


def test_messages_are_shown_without_what_is_usual_and_without_long_bodies() -> None:
    assert repr(Message("t", b"x")) == "Message('t', b'x')"
    assert repr(Message("t", b"x", tags="a", keys=["k"], delay_level=1, wait_store_ok=False)) == (
        "Message('t', b'x', tags='a', keys=['k'], delay_level=1, wait_store_ok=False)"
    )
    shown = repr(Message("t", b"x" * 1_000_000))
    assert shown.endswith("x'... 1000000 bytes)") and len(shown) < 200
