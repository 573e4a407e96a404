"""Loose JSON: real fastjson texts, round trips, and bytes meant to hurt."""

import json
import time
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.remoting import fastjson
from mqctl.remoting.fastjson import FastjsonError, ObjectKey, dumps, dumps_pretty, int_keys, loads
from mqctl.remoting.fastjson_reader import MAX_DEPTH, read

QUEUE = ObjectKey({"brokerName": "b", "queueId": 2, "topic": "t"})


def loose(text: str | bytes) -> Any:
    return read(text.encode() if isinstance(text, str) else text, fastjson.MAX_LOOSE)


# -- reading ----------------------------------------------------------------------------------------


def test_strict_json_keeps_text_keys() -> None:
    assert loads(b'{"0":4,"a":[1,2.5,true,null]}') == {"0": 4, "a": [1, 2.5, True, None]}


def test_integer_keys() -> None:
    assert loads(b'{"offsetTable":{"topic@group":{0:4,1:0,-3:2}}}') == {
        "offsetTable": {"topic@group": {0: 4, 1: 0, -3: 2}}
    }


def test_object_keys() -> None:
    text = (
        b'{"offsetTable":{{"brokerName":"b","queueId":2,"topic":"t"}:'
        b'{"lastUpdateTimestamp":1,"maxOffset":1,"minOffset":0}}}'
    )
    value = {"lastUpdateTimestamp": 1, "maxOffset": 1, "minOffset": 0}
    assert loads(text) == {"offsetTable": {QUEUE: value}}


def test_pretty_printed_file_of_java() -> None:
    text = b'{\n\t"offsetTable":{\n\t\t"E@G":{},\n\t\t"T@G":{0:4,1:2\n\t\t}\n\t}\n}\t \n'
    assert loads(text) == {"offsetTable": {"E@G": {}, "T@G": {0: 4, 1: 2}}}


def test_single_quotes_and_white_space() -> None:
    assert loads(b" { 'a' : 'x\"y' , 'b' : [ 'it\\'s' , 1 ] } \t\r\n") == {"a": 'x"y', "b": ["it's", 1]}


def test_mixed_keys_and_values() -> None:
    assert loads(b'{1:{"a":null},"b":{2:[true,false,-1.5E3,0]},3:"x"}') == {
        1: {"a": None},
        "b": {2: [True, False, -1500.0, 0]},
        3: "x",
    }


def test_the_last_of_equal_keys_wins() -> None:
    assert loads(b"{1:2,1:3}") == {1: 3}


def test_escapes() -> None:
    text = r'{0:"\"\\\/\b\f\n\r\t\v\u0041\u00e9\ud83d\ude00\'"}'
    assert loads(text.encode()) == {0: "\"\\/\b\f\n\r\t\vAé😀'"}


def test_a_lone_surrogate_cannot_break_later_encoding() -> None:
    assert loads(rb'{0:"a\ud800b"}') == {0: "a�b"}


def test_control_characters_inside_strings_are_taken_as_java_takes_them() -> None:
    assert loads(b'{"a":"x\ty"}') == {"a": "x\ty"}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (b"", 0),
        (b"   ", 3),
        (b"{", 1),
        (b"{1", 2),
        (b"{1:", 3),
        (b"{1:2", 4),
        (b"{1:2,", 5),
        (b"{1:2,}", 5),
        (b"{1:2}}", 5),
        (b"{1:2} x", 6),
        (b"{1 2}", 3),
        (b"{a:1}", 1),
        (b"[1,]", 3),
        (b"[1 2]", 3),
        (b"{1:nul}", 3),
        (b"{1:NaN}", 3),
        (b"{1:-}", 3),
        (b"{1:01}", 4),
        (b"{1:1.}", 4),
        (b"{1:1e999}", 3),
        (b"{1:123456789012345678901}", 3),
        (b"{123456789012345678901:1}", 1),
        (b'{1:"x', 3),
        (rb'{1:"\x41"}', 4),
        (rb'{1:"\u00g0"}', 4),
        ('{"é":x}'.encode(), 6),
        (b'{1:"\xff"}', 4),
        (b'{{"a":[1]}:1}', 1),
        (b"{{1:2}:1}", 1),
    ],
)
def test_errors_say_where(text: bytes, position: int) -> None:
    with pytest.raises(FastjsonError, match=f"at byte {position}$") as caught:
        loads(text)
    assert caught.value.position == position


def test_loose_depth_is_bounded() -> None:
    assert loads(b"{1:" * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    with pytest.raises(FastjsonError, match="nested deeper"):
        loads(b"{1:" * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1))


@pytest.mark.parametrize("unit", [b"[", b"{", b'{"a":', b"{1:", b"{{", b"[{1:", b"{{1:"])
def test_brackets_without_end(unit: bytes) -> None:
    with pytest.raises(FastjsonError):
        loads(unit * 200_000)


def test_loose_text_is_bounded_and_strict_text_is_not() -> None:
    assert loads(b'{"a":1}', loose_limit=0) == {"a": 1}
    assert loads(b"{1:1}", loose_limit=5) == {1: 1}
    with pytest.raises(FastjsonError, match="longer than the 4 bytes"):
        loads(b"{1:1}", loose_limit=4)


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        (b"{1:[", b"[],"),
        (b'{1:"', b"\\n"),
        (b"{1:'", b"\\'"),
        (b"{", b"1:1,"),
        (b"{1:", b"9"),
        (b"{1:[", b" "),
        (b"{1:[", b"'',"),
        (b"{", b"\"a\":'',"),
        (b"{1:[", b'"'),
        (b"{", b'{"a":1}:1,'),
    ],
)
def test_time_grows_with_the_text_only(head: bytes, unit: bytes) -> None:
    """A quadratic reader would need minutes for this; ours needs well under a second."""
    text = head + unit * (300_000 // len(unit))
    started = time.perf_counter()
    with pytest.raises(FastjsonError):
        loads(text)
    assert time.perf_counter() - started < 10


@given(st.binary(max_size=200))
def test_hostile_bytes(data: bytes) -> None:
    with suppress(FastjsonError):
        loads(data)


@given(st.text(alphabet="{}[]:,\"'\\0123456789-.eEtrufalsn \t\n\x00é", max_size=60))
def test_hostile_text_that_looks_like_json(text: str) -> None:
    with suppress(FastjsonError):
        loads(text.encode())


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(values)
def test_the_loose_reader_agrees_with_a_strict_one(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert loose(text) == json.loads(text)


# -- tables and keys --------------------------------------------------------------------------------


def test_int_keys_takes_both_forms() -> None:
    assert int_keys(loads(b'{"0":"a"}')) == int_keys(loads(b'{0:"a"}')) == {0: "a"}
    with pytest.raises(ValueError):
        int_keys({"x": 1})


def test_object_keys_are_values() -> None:
    same = ObjectKey({"topic": "t", "queueId": 2, "brokerName": "b"})
    assert same == QUEUE
    assert hash(same) == hash(QUEUE)
    assert ObjectKey({"topic": "t"}) != QUEUE
    assert dict(QUEUE) != QUEUE
    assert (QUEUE["queueId"], len(QUEUE), list(QUEUE)) == (2, 3, ["brokerName", "queueId", "topic"])
    assert "queueId" in repr(QUEUE)


# -- writing ----------------------------------------------------------------------------------------


class Point(msgspec.Struct, frozen=True, order=True):
    y: int = 0
    x: str | None = None
    z: int | msgspec.UnsetType = msgspec.UNSET


def test_members_are_sorted_and_nulls_left_out() -> None:
    assert dumps({"b": 1, "a": None, "c": [None, {"e": None}]}) == b'{"b":1,"c":[null,{}]}'
    assert dumps(Point(y=1)) == b'{"y":1}'
    assert dumps(Point(y=1, x=":null")) == b'{"x":":null","y":1}'


def test_key_forms() -> None:
    assert dumps({10: "a", 9: "b"}) == b'{"9":"b","10":"a"}'
    assert dumps({Point(y=2): 1, Point(y=1): 2}) == b'{{"y":1}:2,{"y":2}:1}'
    assert dumps({QUEUE: 5}) == b'{{"brokerName":"b","queueId":2,"topic":"t"}:5}'
    assert dumps_pretty({1: 2}) == b"{1:2\n}"


def test_scalars() -> None:
    assert dumps({0: [True, 0.0, "\x01é", b"\x01\x02\x03", (1,), {"y", "x"}]}) == (
        '{"0":[true,0.0,"\\u0001é","AQID",[1],["x","y"]]}'.encode()
    )
    with pytest.raises(TypeError):
        dumps({"a": object()})


def test_pretty_form_is_byte_for_byte_that_of_fastjson() -> None:
    """What 4.9.7's RemotingSerializable.toJson(..., true) printed for the same maps, lists, arrays, sets."""
    table = {
        "T@G": {-3: 2, 0: 4, 1: 2},
        "E": {},
        "arr": (1, 2),
        "by": b"\x01\x02\x03",
        "el": [],
        "l": [1, 2],
        "ll": [[1], {"a": 1}],
        "n": None,
        "set": {"x", "y"},
    }
    assert dumps_pretty({"offsetTable": table}).decode() == (
        '{\n\t"offsetTable":{\n\t\t"E":{},\n\t\t"T@G":{-3:2,0:4,1:2\n\t\t},\n\t\t"arr":[1,2],'
        '\n\t\t"by":"AQID",\n\t\t"el":[],\n\t\t"l":[\n\t\t\t1,\n\t\t\t2\n\t\t],\n\t\t"ll":[\n\t\t\t[\n\t\t\t\t1'
        '\n\t\t\t],\n\t\t\t{\n\t\t\t\t"a":1\n\t\t\t}\n\t\t],\n\t\t"set":["x","y"]\n\t}\n}'
    )
    assert dumps_pretty({"z": {1: {"a": 1}, 3: [1]}}).decode() == (
        '{\n\t"z":{1:{\n\t\t\t"a":1\n\t\t},3:[\n\t\t\t1\n\t\t]\n\t}\n}'
    )
    assert dumps_pretty({"offsetTable": {QUEUE: 5}}).decode() == (
        '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":2,\n\t\t\t"topic":"t"\n\t\t}:5\n\t}\n}'
    )


object_keys = st.builds(ObjectKey, st.dictionaries(st.text(), scalars, max_size=3))


def no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: no_nulls(member) for key, member in value.items() if member is not None}
    return [no_nulls(item) for item in value] if isinstance(value, list) else value


def keys_without_nulls(table: dict[Any, Any]) -> bool:
    return all(None not in key.values() for key in table if isinstance(key, ObjectKey))


tables = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(), inner, max_size=3)
        | st.dictionaries(st.integers(-(2**63), 2**63 - 1), inner, max_size=3)
        | st.dictionaries(object_keys, inner, max_size=3).filter(keys_without_nulls)
    ),
    max_leaves=15,
)


@given(tables)
def test_pretty_round_trip(value: Any) -> None:
    assert loads(dumps_pretty(value)) == no_nulls(value)


@given(st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)))
def test_integer_tables_round_trip(table: dict[int, int]) -> None:
    assert int_keys(loads(dumps(table))) == table


@given(values)
def test_compact_round_trip(value: Any) -> None:
    assert loads(dumps(value)) == no_nulls(value)
