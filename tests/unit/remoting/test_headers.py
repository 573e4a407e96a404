"""Typed headers: every field that is missing or cannot be is named to the one who sent it."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import FieldInfo

from mqctl.remoting import headers
from mqctl.remoting.command import BINARY, JSON, Command, HeaderError, decode_frame, header_fields
from mqctl.remoting.frames import FrameSplitter
from mqctl.remoting.headers import (
    CreateTopicHeader,
    PullMessageHeader,
    QueryConsumerOffsetHeader,
    SendMessageHeader,
    TopicHeader,
    TopicQueueHeader,
    long_send_header,
)

KINDS: list[Any] = [
    kind
    for kind in vars(headers).values()
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == headers.__name__
]
FIELDS = [(kind, field) for kind in KINDS for field in msgspec.structs.fields(kind)]
REQUIRED = [(kind, field) for kind, field in FIELDS if field.required]


def allowed(field: FieldInfo) -> list[type]:
    info = msgspec.inspect.type_info(field.type)
    parts = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    names = {msgspec.inspect.IntType: int, msgspec.inspect.StrType: str, msgspec.inspect.BoolType: bool}
    return [names[type(part)] for part in parts if type(part) in names]


INTEGERS = [(kind, field) for kind, field in FIELDS if int in allowed(field)]


def complete(kind: Any) -> dict[str, Any]:
    """extFields with some legal text for every field."""
    return {field.encode_name: "1" for field in msgspec.structs.fields(kind)}


def received(ext: Any, codec: int = JSON) -> Command:
    """A request with these fields, after its way over the wire."""
    data = Command(1, ext=ext, codec=codec).encode()
    return decode_frame(FrameSplitter().feed(data)[0])


def name_of(case: Any) -> str:
    return case.encode_name if isinstance(case, FieldInfo) else getattr(case, "__name__", str(case))


both_codecs = pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])


@both_codecs
@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_complete_headers(kind: Any, codec: int) -> None:
    header = received(complete(kind), codec).header(kind)
    for field in msgspec.structs.fields(kind):
        assert getattr(header, field.name) in (1, "1", True)


@pytest.mark.parametrize(("kind", "field"), REQUIRED, ids=name_of)
def test_a_missing_field_is_named(kind: Any, field: FieldInfo) -> None:
    ext = complete(kind)
    del ext[field.encode_name]
    null = received({**ext, field.encode_name: None})
    for request in (received(ext), received(ext, BINARY), null):
        with pytest.raises(HeaderError, match=rf"`{field.encode_name}`"):
            request.header(kind)


NOT_INTEGERS = ["x", " 1", "1 ", "0x10", "1.5", "9" * 30, "-" + "9" * 30, "true", "٣"]
NOT_INTEGERS_IN_JSON = ["", 10**30, -(10**30), True, 1.5, [1], {"a": 1}]


@pytest.mark.parametrize(("kind", "field"), INTEGERS, ids=name_of)
def test_not_an_integer(kind: Any, field: FieldInfo) -> None:
    cases = [(value, codec) for value in NOT_INTEGERS for codec in (JSON, BINARY)]
    for value, codec in [*cases, *((value, JSON) for value in NOT_INTEGERS_IN_JSON)]:
        with pytest.raises(HeaderError, match=rf"\$\.{field.encode_name}`"):
            received({**complete(kind), field.encode_name: value}, codec).header(kind)


@both_codecs
@pytest.mark.parametrize(
    ("value", "fits"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_ints_are_javas(value: int, fits: bool, codec: int) -> None:
    request = received({"topic": "t", "queueId": str(value)}, codec)
    if fits:
        assert request.header(TopicQueueHeader).queue_id == value
    else:
        with pytest.raises(HeaderError, match="queueId"):
            request.header(TopicQueueHeader)


@both_codecs
@pytest.mark.parametrize(
    ("value", "fits"), [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False)]
)
def test_longs_are_javas(value: int, fits: bool, codec: int) -> None:
    request = received({**complete(PullMessageHeader), "queueOffset": str(value)}, codec)
    if fits:
        assert request.header(PullMessageHeader).queue_offset == value
    else:
        with pytest.raises(HeaderError, match="queueOffset"):
            request.header(PullMessageHeader)


def test_numbers_and_booleans_where_text_belongs_become_text() -> None:
    """Java's decoder makes text of them; Go and C++ clients have sent such headers."""
    assert received({"topic": 5}).header(TopicHeader).topic == "5"
    assert received({"topic": True}).header(TopicHeader).topic == "true"


def test_numbers_as_json_numbers() -> None:
    assert received({"topic": "t", "queueId": 3}).header(TopicQueueHeader).queue_id == 3


@pytest.mark.parametrize(("text", "meaning"), [("true", True), ("false", False), ("True", True), ("FALSE", False)])
def test_booleans(text: str, meaning: bool) -> None:
    ext = {**complete(QueryConsumerOffsetHeader), "setZeroIfNotFound": text}
    assert received(ext).header(QueryConsumerOffsetHeader).set_zero_if_not_found is meaning


def test_not_a_boolean() -> None:
    with pytest.raises(HeaderError, match="order"):
        received({**complete(CreateTopicHeader), "order": "maybe"}).header(CreateTopicHeader)


@pytest.mark.parametrize("ext", [[1], "text", 5])
def test_ext_fields_that_are_no_object(ext: Any) -> None:
    with pytest.raises(HeaderError, match="extFields"):
        received(ext).header(TopicHeader)


def test_unknown_fields_are_ignored() -> None:
    assert received({"topic": "t", "bname": "b", "ReqT": "0", "ns": None}).header(TopicHeader).topic == "t"


def test_no_fields_at_all() -> None:
    for request in (Command(1), Command(1, codec=BINARY)):
        with pytest.raises(HeaderError, match="`topic`"):
            decode_frame(FrameSplitter().feed(request.encode())[0]).header(TopicHeader)


def test_what_is_absent_has_a_default() -> None:
    ext = dict.fromkeys("abcdefgh", "1")
    header = received(ext).header(SendMessageHeader)
    assert (header.properties, header.reconsume_times, header.max_reconsume_times) == ("", 0, None)
    assert (header.unit_mode, header.batch) == (False, False)


# -- SEND_MESSAGE: long names ---------------------------------------------------------------------------

LONG_NAMES = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)
send_headers = st.builds(
    SendMessageHeader,
    producer_group=text,
    topic=text,
    default_topic=text,
    default_topic_queue_nums=int32,
    queue_id=int32,
    sys_flag=int32,
    born_timestamp=st.integers(-(2**63), 2**63 - 1),
    flag=int32,
    properties=text,
    reconsume_times=int32,
    unit_mode=st.booleans(),
    max_reconsume_times=st.none() | int32,
    batch=st.booleans(),
)


@given(send_headers)
def test_long_and_short_names_mean_the_same(header: SendMessageHeader) -> None:
    short = header_fields(header)
    long = {name: short[letter] for name, letter in LONG_NAMES.items() if letter in short}
    for codec in (JSON, BINARY):
        if codec == BINARY and not all(short.values()):
            continue  # which has no empty texts
        assert received(short, codec).header(SendMessageHeader) == header
        assert long_send_header(received(long, codec)) == header


@pytest.mark.parametrize("codec", [JSON, BINARY])
@pytest.mark.parametrize("name", list(LONG_NAMES)[:8])
def test_a_missing_long_name_is_named(name: str, codec: int) -> None:
    ext = {long: "1" for long in LONG_NAMES if long != name}
    with pytest.raises(HeaderError, match=f"`{name}`"):
        long_send_header(received(ext, codec))


@pytest.mark.parametrize("name", ["defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag", "batch"])
def test_a_wrong_long_name_is_named(name: str) -> None:
    ext = {**dict.fromkeys(LONG_NAMES, "1"), name: "wrong"}
    with pytest.raises(HeaderError, match=rf"`\$\.{name}`"):
        long_send_header(received(ext))


def test_short_names_do_not_do_for_the_long_form() -> None:
    with pytest.raises(HeaderError, match="`producerGroup`"):
        long_send_header(received(dict.fromkeys("abcdefgh", "1")))
