"""Values as Java sees them: which text is a number, and which of two values is the greater.

Properties are texts. What one is compared with decides what it is read as: an int where the literal fits an int,
else a long, else a double. RocketMQ's filter has these rules from ActiveMQ (ComparisonExpression).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final


class NotComparable(Exception):
    """Java throws here while it looks at a message. The message then does not match, whatever the rest says."""


class Int(int):
    """java.lang.Integer."""


class Long(int):
    """java.lang.Long."""


# What a filter compares. A literal is an Int, a Long or a float, which is java.lang.Double; its type says how to read
# the text that it is compared with. What comes of reading needs no type of its own.
Value = str | bool | int | float
Number = Int | Long | float

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

# Integer.valueOf takes the decimal digits of any script, as long as one UTF-16 unit holds them.
_INTEGER: Final = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")
_DECIMAL_DOUBLE: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_DOUBLE: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity)")
_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim takes away


def to_int(text: str) -> int:
    return _integer(text, INT_MAX)


def to_long(text: str) -> int:
    return _integer(text, LONG_MAX)


def _integer(text: str, greatest: int) -> int:
    if (text.isascii() and text.isdigit()) or _INTEGER.fullmatch(text):
        try:
            number = int(text)
        except ValueError:  # thousands of digits: Python would rather not
            raise NotComparable from None
        if -greatest - 1 <= number <= greatest:
            return number
    raise NotComparable


def to_double(text: str) -> float:
    """Double.valueOf: blanks around it, a trailing f or d and hexadecimal fractions are all right."""
    trimmed = text.strip(_BLANKS)
    if _NAMED_DOUBLE.fullmatch(trimmed):
        return float(trimmed)
    if found := _DECIMAL_DOUBLE.fullmatch(trimmed):
        return float(found[1])
    if found := _HEX_DOUBLE.fullmatch(trimmed):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return math.copysign(math.inf, -1 if trimmed.startswith("-") else 1)
    raise NotComparable


def to_boolean(text: str) -> bool:
    return text.lower() == "true"


_READERS: Final[dict[type, Callable[[str], Value]]] = {
    Int: to_int,
    Long: to_long,
    float: to_double,
    bool: to_boolean,
}


def compare(left: Value, right: Value) -> int:
    """Below, at or above zero as `left` is less than, equal to or greater than `right`; -1 where there is no
    order between them. Raises NotComparable."""
    left_type, right_type = type(left), type(right)
    if left_type is not right_type:
        if left_type is str:
            left = _READERS[right_type](str(left))
        elif right_type is str:
            if left_type is bool:
                raise NotComparable  # Java converts the wrong one of the two here, and its cast fails
            right = _READERS[left_type](str(right))
        elif bool in (left_type, right_type):
            return -1
        elif float in (left_type, right_type):
            left, right = float(left), float(right)
    if type(left) is float:
        return _compare_doubles(left, float(right))
    return _order(left, right)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _compare_doubles(left: float, right: float) -> int:
    """Double.compareTo: NaN equals itself and is above all else, and 0.0 is above -0.0."""
    return _order(left, right) or _order(_rank(left), _rank(right))


def _rank(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, math.copysign(1.0, number))


def negative(number: Number) -> Number:
    """Of the same type. A literal is never the least int or long, so nothing can overflow."""
    return type(number)(-number)
