"""Which texts are numbers to Java, and how it orders values."""

from __future__ import annotations

import math

import pytest

from mqctl.filter.java import Int, Long, NotComparable, Value, compare, negative, to_boolean, to_double, to_int, to_long


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("+5", 5), ("-0", 0), ("007", 7), ("٥", 5), ("2147483647", 2**31 - 1)]
)
def test_ints(text: str, number: int) -> None:
    assert to_int(text) == to_long(text) == number


@pytest.mark.parametrize("text", ["", "+", " 5", "5 ", "5.0", "1_000", "0x10", "5L", "𝟓", "2147483648", "9" * 5000])
def test_no_ints(text: str) -> None:
    with pytest.raises(NotComparable):
        to_int(text)


def test_longs_have_their_bounds() -> None:
    assert to_long("-9223372036854775808") == -(2**63)
    with pytest.raises(NotComparable):
        to_long("9223372036854775808")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("5", 5.0), (" 5.5\n", 5.5), ("5.", 5.0), (".5", 0.5), ("1e3", 1000.0), ("5d", 5.0), ("5F", 5.0)),
        *(("0x1p3", 8.0), ("-0X.8P1f", -1.0), ("Infinity", math.inf), ("-Infinity", -math.inf), ("1e999", math.inf)),
        *(("0x1p99999", math.inf), ("-0x1p99999", -math.inf)),
    ],
)  # fmt: skip
def test_doubles(text: str, number: float) -> None:
    assert to_double(text) == number


@pytest.mark.parametrize("text", ["", ".", "e5", "nan", "inf", "infinity", "1_0", "0x10", "5L", "٥", "1e", "NaNd"])
def test_no_doubles(text: str) -> None:
    with pytest.raises(NotComparable):
        to_double(text)


def test_booleans() -> None:
    assert to_boolean("TrUe")
    assert not to_boolean("yes")


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        *(("5", Int(5), 0), ("4", Int(5), -1), (Int(5), "4", 1), ("3000000000", Long(5), 1), ("5.5", 5.5, 0)),
        *((Int(5), Long(5), 0), (Int(5), 5.5, -1), (Long(2**53 + 1), float(2**53), 0), (5.5, Int(5), 1)),
        *(("true", True, 0), ("x", False, 0), (True, False, 1), (True, Int(1), -1), (Int(1), True, -1)),
        *(("a", "a", 0), ("a", "b", -1), ("NaN", math.nan, 0), (math.nan, math.inf, 1), (0.0, -0.0, 1)),
    ],
)  # fmt: skip
def test_order(left: Value, right: Value, order: int) -> None:
    assert compare(left, right) == order


@pytest.mark.parametrize(("left", "right"), [("x", Int(5)), (Int(5), "5.5"), ("x", 5.5), (True, "true")])
def test_no_order(left: Value, right: Value) -> None:
    with pytest.raises(NotComparable):
        compare(left, right)


def test_a_negative_keeps_its_type() -> None:
    for number in (Int(5), Long(5), 5.5):
        assert (negative(number), type(negative(number))) == (-number, type(number))
