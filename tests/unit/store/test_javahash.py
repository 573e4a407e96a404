"""Java's String.hashCode: values a real broker stored, and the definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.store.javahash import java_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TagB10", -1797403609),
        ("fx_t1#7F00000100000000000000000000AB01", -1460848597),
        ("fx_t1#k1", -667318401),
        ("fx_t1#k2", -667318400),
        ("polygenelubricants", -(2**31)),
        ("ä", 228),
        ("中文", 646394),
        ("\U0001f600", 55357 * 31 + 56832),  # two UTF-16 units
        ("\ud800", 55296),  # half of one
    ],
)
def test_values_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(st.text(max_size=30))
def test_the_definition(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    expected = 0
    for at in range(0, len(units), 2):
        expected = expected * 31 + int.from_bytes(units[at : at + 2], "big")
    assert java_hash(text) % 2**32 == expected % 2**32
    assert -(2**31) <= java_hash(text) < 2**31
