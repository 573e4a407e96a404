"""The fast way reads what the reader reads, or gives up."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.remoting import fastjson
from mqctl.remoting.bodies import ConsumeStats, MessageQueue, OffsetWrapper, encode
from mqctl.remoting.fastjson_reader import read
from mqctl.remoting.fastjson_tables import read_tables

NAMES = st.text(alphabet='ab{}[]:,"\\\0 é', max_size=6)
LIMIT = 1_000_000
GIVES_UP = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@given(st.dictionaries(st.tuples(NAMES, NAMES, st.integers(0, 9)), st.integers(0, 2**40), max_size=5), NAMES)
def test_tables_of_any_names(table: dict[tuple[str, str, int], int], extra: str) -> None:
    offsets = {MessageQueue(*key): OffsetWrapper(broker_offset=value) for key, value in table.items()}
    data = encode(ConsumeStats(offset_table=offsets))[:-1] + b',"extra":' + msgspec.json.encode(extra) + b"}"
    expected = read(data, LIMIT)
    assert fastjson.loads(data) == expected
    with contextlib.suppress(*GIVES_UP):
        assert read_tables(data) == expected


@given(st.text(alphabet='{}[]:,"a1\\', max_size=30))
def test_any_text(text: str) -> None:
    """What the fast way takes, the reader takes as the same."""
    data = text.encode()
    try:
        found = read_tables(data)
    except GIVES_UP:
        return
    assert read(data, LIMIT) == found


@pytest.mark.parametrize(
    "data",
    [b'{{"a":[1]}:2}', b'{{"a":{"b":1}}:2}', b'{0:{{"a":1}:2}}', b'{"s":",{\\"a\\":1}:"}x', b'{{"a":"\\u0041"}:1}'],
)
def test_gives_up(data: bytes) -> None:
    with pytest.raises(GIVES_UP):
        read_tables(data)
