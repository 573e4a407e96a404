"""Commit log records: bytes of a real broker, every kind of host, and damage."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.store import record
from mqctl.store.record import Record, RecordError

# Written by a 4.9.7 broker at log offset 0: topic fx_t1, queue 0, body hello1, KEYS "k1 k2", TAGS TagA.
FROM_JAVA = bytes.fromhex(
    "000000b6 daa320a7 0731d904 00000000 00000000 0000000000000000 0000000000000000 00000000"
    "000001a1ed46e925 7f000001 0000a67c 000001a1ed46e94d 7f000001 000051af 00000000 0000000000000000"
    "00000006 68656c6c6f31 05 66785f7431 0050"
    "4b455953016b31206b3202554e49515f4b455901374630303030303130303030303030303030303030303030303030304142303102"
    "434c5553544552014678436c757374657202544147530154616741"
)
PROPERTIES = "KEYS\x01k1 k2\x02UNIQ_KEY\x017F00000100000000000000000000AB01\x02CLUSTER\x01FxCluster\x02TAGS\x01TagA"

V4, V6 = ("10.1.2.3", 40000), ("2001:db8::1", 50000)


def encoded(
    topic: str = "topic",
    body: bytes = b"body",
    properties: str = "k\x01v",
    born: tuple[str, int] = V4,
    store: tuple[str, int] = V4,
    sys_flag: int = 0,
    **numbers: int,
) -> bytes:
    born_host, store_host = record.pack_host(*born), record.pack_host(*store)
    sys_flag |= record.host_flags(born_host, store_host)
    topic_bytes, property_bytes = topic.encode(), properties.encode()
    return record.encode(
        record.encoded_size(sys_flag, len(topic_bytes), len(body), len(property_bytes)),
        topic_bytes,
        numbers.get("queue_id", 0),
        numbers.get("queue_offset", 0),
        numbers.get("phys_offset", 0),
        numbers.get("flag", 0),
        sys_flag,
        numbers.get("born_timestamp", 0),
        born_host,
        numbers.get("store_timestamp", 0),
        store_host,
        numbers.get("reconsume_times", 0),
        numbers.get("prepared_offset", 0),
        body,
        property_bytes,
    )


# -- bytes of Java --------------------------------------------------------------------------------------


def test_reads_what_java_wrote() -> None:
    assert record.parse(FROM_JAVA, 0, check_crc=True) == Record(
        size=182,
        body_crc=0x0731D904,
        queue_id=0,
        flag=0,
        queue_offset=0,
        phys_offset=0,
        sys_flag=0,
        born_timestamp=0x1A1ED46E925,
        born_host=("127.0.0.1", 42620),
        store_timestamp=0x1A1ED46E94D,
        store_host=("127.0.0.1", 20911),
        reconsume_times=0,
        prepared_offset=0,
        body=b"hello1",
        topic="fx_t1",
        properties=PROPERTIES,
    )


def test_writes_what_java_wrote() -> None:
    assert (
        encoded(
            topic="fx_t1",
            body=b"hello1",
            properties=PROPERTIES,
            born=("127.0.0.1", 42620),
            store=("127.0.0.1", 20911),
            born_timestamp=0x1A1ED46E925,
            store_timestamp=0x1A1ED46E94D,
        )
        == FROM_JAVA
    )


def test_its_message_id() -> None:
    store_host = record.pack_host("127.0.0.1", 20911)
    assert record.encode_msg_id(store_host, 0) == "7F000001000051AF0000000000000000"
    assert record.decode_msg_id("7F000001000051AF0000000000000000") == (("127.0.0.1", 20911), 0)


def test_its_head() -> None:
    assert record.is_head_at(FROM_JAVA, 0)
    assert not record.is_head_at(FROM_JAVA, 182)
    assert record.size_of(FROM_JAVA) == 182
    assert record.store_timestamp_of(FROM_JAVA) == 0x1A1ED46E94D


def test_the_smallest_record_is_91_bytes() -> None:
    assert record.MIN_RECORD == 91
    assert len(encoded(topic="", body=b"", properties="")) == 91


def test_an_empty_body_has_no_crc() -> None:
    assert record.parse(encoded(body=b""), 0, check_crc=True).body_crc == 0


# -- round trips ----------------------------------------------------------------------------------------

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.tuples(st.ip_addresses().map(str), st.integers(0, 65535))


@given(
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    body=st.binary(max_size=200),
    properties=st.text(st.characters(exclude_categories=["Cs"]), max_size=100),
    born=hosts,
    store=hosts,
    sys_flag=int32.map(lambda value: value & ~0x30),
    numbers=st.fixed_dictionaries(
        {
            "queue_id": int32,
            "flag": int32,
            "reconsume_times": int32,
            "queue_offset": int64,
            "phys_offset": int64,
            "born_timestamp": int64,
            "store_timestamp": int64,
            "prepared_offset": int64,
        }
    ),
    before=st.binary(max_size=8),
)
def test_any_record_comes_back(
    topic: str,
    body: bytes,
    properties: str,
    born: tuple[str, int],
    store: tuple[str, int],
    sys_flag: int,
    numbers: dict[str, int],
    before: bytes,
) -> None:
    data = encoded(topic, body, properties, born, store, sys_flag, **numbers)
    back = record.parse(before + data + b"more", len(before), check_crc=True)
    assert (back.topic, back.body, back.properties) == (topic, body, properties)
    assert (back.born_host, back.store_host) == tuple(
        record.unpack_host(record.pack_host(*host)) for host in (born, store)
    )
    assert {name: getattr(back, name) for name in numbers} == numbers
    assert back.sys_flag & ~0x30 == sys_flag
    assert back.size == len(data)
    assert back.body_crc == zlib.crc32(body) & 0x7FFFFFFF
    assert record.store_timestamp_of(data) == numbers["store_timestamp"]
    assert record.is_head_at(data, numbers["phys_offset"])


@pytest.mark.parametrize(
    ("born", "store", "flags", "size"),
    [(V4, V4, 0, 91), (V6, V4, 0x10, 103), (V4, V6, 0x20, 103), (V6, V6, 0x30, 115)],
)
def test_host_widths(born: tuple[str, int], store: tuple[str, int], flags: int, size: int) -> None:
    data = encoded(topic="", body=b"", properties="", born=born, store=store, store_timestamp=77)
    back = record.parse(data, 0)
    assert (len(data), back.sys_flag) == (size, flags)
    assert (back.born_host, back.store_host) == (born, store)
    assert record.store_timestamp_of(data) == 77


def test_addresses_that_are_really_ipv4() -> None:
    assert record.pack_host("::ffff:10.0.0.1", 1) == record.pack_host("10.0.0.1", 1)
    assert len(record.pack_host("fe80::1%eth0", 1)) == 20


@given(hosts, st.integers(0, 2**63 - 1))
def test_message_ids_come_back(host: tuple[str, int], phys_offset: int) -> None:
    packed = record.pack_host(*host)
    msg_id = record.encode_msg_id(packed, phys_offset)
    assert len(msg_id) in (32, 56)
    assert msg_id == msg_id.upper()
    assert record.decode_msg_id(msg_id) == (record.unpack_host(packed), phys_offset)


@pytest.mark.parametrize("text", ["", "7F", "xyz", "7F000001000051AF000000000000000", "0" * 34, "0" * 55, "ß" * 32])
def test_not_a_message_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"hex"):
        record.decode_msg_id(text)


def test_records_of_newer_brokers() -> None:
    """Magic V2: a topic length of two bytes."""
    data = bytearray(encoded(topic="long", body=b"b", properties="p\x01v"))
    at = data.index(b"\x04long")
    data[at:at] = b"\x00"
    data[0:8] = record.SIZE_AND_MAGIC.pack(len(data), record.MAGIC_V2)
    back = record.parse(bytes(data), 0, check_crc=True)
    assert (back.topic, back.body, back.properties) == ("long", b"b", "p\x01v")


# -- damage ---------------------------------------------------------------------------------------------


def test_cut_at_every_byte() -> None:
    for length in range(len(FROM_JAVA)):
        with pytest.raises(RecordError):
            record.parse(FROM_JAVA[:length], 0)


@pytest.mark.parametrize("position", [-1, 1, 100, 181, 182, 10_000])
def test_not_where_a_record_begins(position: int) -> None:
    with pytest.raises(RecordError):
        record.parse(FROM_JAVA, position)


def test_every_damaged_byte_of_a_body_is_noticed() -> None:
    at = FROM_JAVA.index(b"hello1")
    for position in range(at, at + 6):
        for bit in range(8):
            data = bytearray(FROM_JAVA)
            data[position] ^= 1 << bit
            assert record.parse(bytes(data), 0).size == 182  # reading does not look at the sum
            with pytest.raises(RecordError, match="CRC"):
                record.parse(bytes(data), 0, check_crc=True)


@given(st.lists(st.tuples(st.integers(0, 181), st.integers(1, 255)), min_size=1, max_size=4))
def test_damage_is_refused_or_harmless(flips: list[tuple[int, int]]) -> None:
    """Whatever bytes change, either the record is refused or its parts still make up its size."""
    data = bytearray(FROM_JAVA)
    for position, mask in flips:
        data[position] ^= mask
    try:
        back = record.parse(bytes(data), 0, check_crc=True)
    except RecordError:
        return
    assert back.size == 182
    assert zlib.crc32(back.body) & 0x7FFFFFFF == back.body_crc or not back.body
    if "\ufffd" not in back.topic + back.properties:
        hosts_size = 12 * (back.sys_flag >> 4 & 1) + 12 * (back.sys_flag >> 5 & 1)
        texts_size = len(back.topic.encode()) + len(back.properties.encode())
        assert 91 + hosts_size + len(back.body) + texts_size == 182


@given(st.binary(max_size=300), st.integers(-5, 300))
def test_hostile_bytes_raise_nothing_else(data: bytes, position: int) -> None:
    with pytest.raises(RecordError):
        record.parse(data, position, check_crc=True)


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0xFFFFFFFF, 92, 0])
def test_body_lengths_that_do_not_fit(length: int) -> None:
    data = bytearray(FROM_JAVA)
    at = FROM_JAVA.index(b"\x00\x00\x00\x06hello1")
    data[at : at + 4] = length.to_bytes(4, "big")
    with pytest.raises(RecordError):
        record.parse(bytes(data), 0)


@pytest.mark.parametrize("part", ["fx_t1", "KEYS"])
def test_text_that_is_not_utf_8(part: str) -> None:
    """No damage: Java reads it with replacement characters as well."""
    data = FROM_JAVA.replace(part.encode(), b"\xff" + part.encode()[1:], 1)
    back = record.parse(data, 0, check_crc=True)
    assert "\ufffd" + part[1:] in back.topic + back.properties


def test_a_blank_is_no_record() -> None:
    with pytest.raises(RecordError, match="0xcbd43194"):
        record.parse(record.BLANK.pack(200, record.MAGIC_BLANK) + bytes(192), 0)


@pytest.mark.parametrize("length", range(0, 76, 5))
def test_a_head_cut_short_is_none(length: int) -> None:
    assert not record.is_head_at(FROM_JAVA[:length], 0)
