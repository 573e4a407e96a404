"""Commands as frames in both codecs: bytes of the protocol notes, round trips, and headers that are none."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqctl.remoting.codes import LanguageCode
from mqctl.remoting.command import BINARY, JSON, Command, HeaderError, decode_frame, header_fields
from mqctl.remoting.frames import Frame, FrameError, FrameSplitter
from mqctl.remoting.headers import TopicHeader, TopicQueueHeader

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
some_text = text.filter(bool)
languages = st.sampled_from([int(member) for member in LanguageCode])

json_commands = st.builds(
    Command,
    code=int32,
    ext=st.dictionaries(text, text, max_size=5),
    body=st.binary(max_size=60),
    remark=st.none() | text,
    flag=int32,
    opaque=int32,
    version=st.integers(0, 2**31 - 1),
    language=languages,
    codec=st.just(JSON),
)
# The binary codec has no empty texts: they mean null.
binary_commands = st.builds(
    Command,
    code=int16,
    ext=st.dictionaries(some_text, some_text, max_size=5),
    body=st.binary(max_size=60),
    remark=st.none() | some_text,
    flag=int32,
    opaque=int32,
    version=int16,
    language=languages,
    codec=st.just(BINARY),
)
commands = json_commands | binary_commands


def decoded(data: bytes) -> list[Command]:
    return [decode_frame(frame) for frame in FrameSplitter().feed(data)]


def from_json(**header: Any) -> Command:
    return decode_frame(Frame(JSON, json.dumps(header).encode(), b""))


# -- bytes from the wire --------------------------------------------------------------------------------

ROUTE_REQUEST = Command(105, ext={"topic": "bench"}, opaque=7, version=407, language=LanguageCode.JAVA)
ROUTE_BINARY = "00000029 01000025 0069 00 0197 00000007 00000000 00000000 00000010 0005 746f706963 00000005 62656e6368"


def test_binary_request_byte_for_byte() -> None:
    request = msgspec.structs.replace(ROUTE_REQUEST, codec=BINARY)
    assert request.encode() == bytes.fromhex(ROUTE_BINARY)
    assert decoded(bytes.fromhex(ROUTE_BINARY)) == [ROUTE_REQUEST]


def test_json_request_byte_for_byte() -> None:
    assert ROUTE_REQUEST.encode() == bytes.fromhex("00000083 0000007f") + (
        b'{"code":105,"extFields":{"topic":"bench"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":407}'
    )


def test_json_request_in_another_order() -> None:
    data = bytes.fromhex("00000083 0000007f") + (
        b'{"code":105,"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407,'
        b'"extFields":{"topic":"bench"}}'
    )
    assert decoded(data) == [ROUTE_REQUEST]


def test_success_reply_as_java_writes_it() -> None:
    reply = Command(34, opaque=1000).reply()
    assert reply.encode()[8:] == (
        b'{"code":0,"flag":1,"language":"JAVA","opaque":1000,"serializeTypeCurrentRPC":"JSON","version":407}'
    )


def test_reply_with_remark_and_fields() -> None:
    reply = Command(11, opaque=3).reply(19, ext={"minOffset": "0"}, remark="gone")
    assert reply.encode()[8:] == (
        b'{"code":19,"extFields":{"minOffset":"0"},"flag":1,"language":"JAVA","opaque":3,"remark":"gone",'
        b'"serializeTypeCurrentRPC":"JSON","version":407}'
    )


def test_binary_reply_byte_for_byte() -> None:
    reply = Command(11, opaque=3, codec=BINARY).reply(19, ext={"a": "1"}, body=b"xy", remark="gone")
    assert reply.encode() == bytes.fromhex(
        "00000027 01000021 0013 00 0197 00000003 00000001 00000004 676f6e65 00000008 0001 61 00000001 31 7879"
    )


# -- round trips ----------------------------------------------------------------------------------------


@given(commands)
def test_any_command_comes_back(command: Command) -> None:
    (frame,) = FrameSplitter().feed(command.encode())
    assert frame.codec == command.codec
    back = decode_frame(frame)
    assert back == command
    assert back.codec == command.codec
    assert decoded(back.encode()) == [command]


@given(st.lists(commands, min_size=1, max_size=4), st.data())
def test_a_stream_in_any_chunking(sent: list[Command], data: st.DataObject) -> None:
    whole = b"".join(command.encode() for command in sent)
    bounds = [0, *sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8))), len(whole)]
    splitter = FrameSplitter()
    received = []
    for start, end in itertools.pairwise(bounds):
        received += [decode_frame(frame) for frame in splitter.feed(whole[start:end])]
    assert received == sent


def test_binary_leaves_out_what_it_cannot_say() -> None:
    command = Command(10, ext={"empty": "", "": "nameless", "k": "v"}, remark="", codec=BINARY)
    (back,) = decoded(command.encode())
    assert back.fields() == {"k": "v"}
    assert back.remark is None


def test_binary_cuts_codes_to_16_bits_as_java_does() -> None:
    (back,) = decoded(Command(200_050, codec=BINARY).encode())
    assert back.code == 200_050 - 3 * 65_536


def test_binary_refuses_a_field_name_it_cannot_measure() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        Command(1, ext={"k" * 32_768: "v"}, codec=BINARY).encode()


# -- what Java's decoder takes --------------------------------------------------------------------------


def test_absent_keys_have_defaults() -> None:
    command = from_json()
    assert command == Command(0, flag=0, opaque=0, version=0, language=LanguageCode.JAVA)
    assert command.fields() == {}
    assert command.remark is None


def test_unknown_keys_are_ignored() -> None:
    assert from_json(code=5, somethingNew={"a": [1, None]}).code == 5


@pytest.mark.parametrize(
    ("language", "meaning"),
    [("GO", 9), ("JAVA", 0), (9, 9), (0, 0), ("KLINGON", 7), (99, 7), (-1, 7), (None, 7)],
)
def test_languages_by_name_and_number(language: Any, meaning: int) -> None:
    assert from_json(language=language).language == meaning


def test_binary_language_that_nobody_knows() -> None:
    """Tools show languages by name: whatever the codec, only known ones may come in."""
    data = bytearray(bytes.fromhex(ROUTE_BINARY))
    data[10] = 77
    (command,) = decoded(bytes(data))
    assert command.language in set(LanguageCode)


def test_field_values_become_text() -> None:
    command = from_json(extFields={"n": 5, "t": True, "f": False, "x": None, "d": 1.5, "s": "5"})
    assert command.fields() == {"n": "5", "t": "true", "f": "false", "d": "1.5", "s": "5"}


@pytest.mark.parametrize("ext", [None, {}])
def test_no_fields(ext: Any) -> None:
    assert from_json(extFields=ext).fields() == {}


def test_text_is_utf_8() -> None:
    header = '{"code":1,"remark":"ä中\\ud83d\\ude00","extFields":{"k":"😀é"}}'.encode()
    command = decode_frame(Frame(JSON, header, b""))
    assert command.remark == "ä中😀"
    assert command.fields() == {"k": "😀é"}


# -- flags ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "response", "oneway"), [(0, False, False), (1, True, False), (2, False, True), (3, True, True)]
)
def test_flag_bits(flag: int, response: bool, oneway: bool) -> None:
    command = Command(1, flag=flag)
    assert (command.is_response, command.is_oneway) == (response, oneway)


@pytest.mark.parametrize("codec", [JSON, BINARY])
def test_a_reply_belongs_to_its_request(codec: int) -> None:
    reply = Command(11, opaque=-5, flag=0, version=513, language=LanguageCode.GO, codec=codec).reply(1, body=b"b")
    assert (reply.opaque, reply.flag, reply.codec, reply.version) == (-5, 1, codec, 407)
    assert reply.language == LanguageCode.JAVA


# -- headers that are none ------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [2, 3, 127, 128, 255])
def test_unknown_codec(codec: int) -> None:
    with pytest.raises(FrameError, match=f"codec {codec}"):
        decode_frame(Frame(codec, b'{"code":1}', b""))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b"GET / HTTP/1.1\r\n",
        b'{"code":1}trailing',
        b'{"code":"x"}',
        b'{"code":null}',
        b'{"code":[]}',
        b'{"code":2147483648}',
        b'{"opaque":99999999999}',
        b'{"flag":-2147483649}',
        b'{"remark":5}',
        b'{"remark":"\xff"}',
        b'{"remark":"\\ud800 alone"}',
        b'{"extFields":{"a":}}',
        b'{"extFields":{"a":"\\q"}}',
        b"\xff\xfe",
    ],
)
def test_not_a_json_header(header: bytes) -> None:
    with pytest.raises(FrameError, match="does not parse"):
        decode_frame(Frame(JSON, header, b""))


@pytest.mark.parametrize("place", [b'{"unknown":%s}', b'{"extFields":{"topic":%s}}'])
def test_a_header_nested_without_end(place: bytes) -> None:
    with pytest.raises(FrameError):
        decode_frame(Frame(JSON, place % (b"[" * 100_000 + b"]" * 100_000), b""))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "0069 00 0197 00000007 00000000 000000",  # cut in the fixed part
        "0069 00 0197 00000007 00000000 00000001",  # remark missing
        "0069 00 0197 00000007 00000000 ffffffff 00000000",  # remark of -1
        "0069 00 0197 00000007 00000000 00000000",  # ext length missing
        "0069 00 0197 00000007 00000000 00000000 ffffffff",  # ext of -1
        "0069 00 0197 00000007 00000000 00000000 00000001",  # ext missing
        "0069 00 0197 00000007 00000000 00000000 00000001 00",  # key length cut
        "0069 00 0197 00000007 00000000 00000000 00000003 0001 61",  # value length missing
        "0069 00 0197 00000007 00000000 00000000 00000007 0001 61 00000001",  # value missing
        "0069 00 0197 00000007 00000000 00000000 00000002 ffff",  # key of -1
        "0069 00 0197 00000007 00000000 00000000 00000008 0001 61 00000002 6161",  # value past the ext length
        "0069 00 0197 00000007 00000000 00000000 00000008 0001 ff 00000001 61",  # key not UTF-8
        "0069 00 0197 00000007 00000000 00000001 ff 00000000",  # remark not UTF-8
    ],
)
def test_not_a_binary_header(header: str) -> None:
    with pytest.raises(FrameError, match="does not parse"):
        decode_frame(Frame(BINARY, bytes.fromhex(header), b""))


@given(st.sampled_from([JSON, BINARY]) | st.integers(0, 255), st.binary(max_size=80))
def test_hostile_headers_raise_nothing_else(codec: int, header: bytes) -> None:
    with contextlib.suppress(FrameError):
        decode_frame(Frame(codec, header, b""))


@given(commands, st.data())
def test_damaged_headers_raise_nothing_else(command: Command, data: st.DataObject) -> None:
    """A few bytes of a good header replaced: whatever still decodes can also be asked for its fields."""
    frame = bytearray(command.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(8, len(frame) - 1)) if len(frame) > 8 else 0] = data.draw(st.integers(0, 255))
    try:
        received = decoded(bytes(frame))
    except FrameError:
        return
    for each in received:
        with contextlib.suppress(HeaderError):
            each.header(TopicQueueHeader)


@example(b"\xff")
@given(st.binary(min_size=1, max_size=6))
def test_field_values_that_are_not_utf_8(value: bytes) -> None:
    """The codec leaves extFields undecoded, so the damage is found only when a handler asks for its header."""
    header = b'{"code":1,"extFields":{"topic":"' + value + b'"}}'
    try:
        command = decode_frame(Frame(JSON, header, b""))
    except FrameError:
        return
    with contextlib.suppress(HeaderError):
        command.header(TopicHeader)


# -- typed headers out ----------------------------------------------------------------------------------


def test_header_fields_as_java_prints_them() -> None:
    class Example(msgspec.Struct, rename="camel"):
        max_num: int
        is_ok: bool
        is_not: bool
        name: str
        absent: str | None = None

    assert header_fields(Example(7, True, False, "n")) == {
        "maxNum": "7",
        "isOk": "true",
        "isNot": "false",
        "name": "n",
    }
