"""A reader for fastjson's loose JSON, for text that a strict parser has refused.

On top of JSON it takes integer keys without quotes, objects as keys, single quotes, and control characters
inside strings. It never looks at a character more than a few times, so its time is proportional to the text;
but bytes chosen to hurt take a second per MiB, which is why callers say how much they are ready to read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# How deep loose text may nest. RocketMQ's deepest body has about eight levels; without a bound a frame full
# of opening brackets would exhaust the stack. (For strict JSON the limit is msgspec's, the interpreter's.)
MAX_DEPTH: Final = 64

# Java knows no longer integer than 20 characters ("-9223372036854775808"), and converting thousands of digits
# takes quadratic time.
MAX_INTEGER_TEXT: Final = 20


class FastjsonError(ValueError):
    """The bytes are not JSON, not even fastjson's. `position` is the byte where reading stopped."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position


class ObjectKey(Mapping[str, Any]):
    """An object that was used as a key, e.g. a MessageQueue: equal and hashed by its members."""

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = dict(members)

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return hash(frozenset(self._members.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._members == other._members

    def __repr__(self) -> str:
        return f"ObjectKey({self._members!r})"


def read(data: bytes | bytearray | memoryview, limit: int) -> Any:
    """The value of one document of at most `limit` bytes. Raises FastjsonError, and nothing else."""
    if len(data) > limit:
        raise FastjsonError(f"not strict JSON, and longer than the {limit} bytes read as loose JSON", 0)
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FastjsonError("not UTF-8", error.start) from None
    return _Reader(text).document()


# Digits are spelled out: \d would also match those of other scripts.
_SPACE: Final = re.compile(r"[ \t\n\r\f\b]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
# A member whose key and value need no second look, up to and with the comma or brace behind it: nine of ten.
_SIMPLE_MEMBER: Final = re.compile(
    r"""
    [ \t\n\r\f\b]*+ (?: "([^"\\]*+)" | (-?(?:0|[1-9][0-9]{0,17}+)) ) [ \t\n\r\f\b]*+ :
    [ \t\n\r\f\b]*+ (?: "([^"\\]*+)" | (-?(?:0|[1-9][0-9]{0,17}+)) ) [ \t\n\r\f\b]*+ ([,}])
    """,
    re.VERBOSE,
)
_PLAIN: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_HEX4: Final = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ESCAPES: Final = {char: char for char in "\"'\\/"} | dict(zip("bfnrtv", "\b\f\n\r\t\v", strict=True))
_WORDS: Final = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class _Reader:
    """Recursive descent over one text. Every method starts at `at` and leaves it behind what it has read."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Any:
        value = self.value(0)
        if self.peek():
            raise self.error("text after the end of the document")
        return value

    def error(self, reason: str) -> FastjsonError:
        return FastjsonError(reason, len(self.text[: self.at].encode()))

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches nothing, too
        self.at = at
        return self.text[at : at + 1]

    def expect(self, char: str) -> None:
        if self.peek() != char:
            raise self.error(f"expected {char!r}")
        self.at += 1

    def value(self, depth: int) -> Any:
        char = self.peek()
        if char == "{":
            return self.object(depth + 1)
        if char == "[":
            return self.array(depth + 1)
        if char in _PLAIN:
            return self.string(char)
        if char in _WORDS:
            return self.word(*_WORDS[char])
        return self.number()

    def word(self, word: str, value: bool | None) -> bool | None:
        if not self.text.startswith(word, self.at):
            raise self.error("expected a value")
        self.at += len(word)
        return value

    def enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}")
        self.at += 1

    def more(self, end: str) -> bool:
        """After a member: True behind a comma, False behind the end."""
        char = self.peek()
        if char != "," and char != end:
            raise self.error(f"expected ',' or {end!r}")
        self.at += 1
        return char == ","

    def array(self, depth: int) -> list[Any]:
        self.enter(depth)
        found: list[Any] = []
        if self.peek() == "]":
            self.at += 1
            return found
        found.append(self.value(depth))
        while self.more("]"):
            found.append(self.value(depth))
        return found

    def object(self, depth: int) -> dict[Any, Any]:
        self.enter(depth)
        found: dict[Any, Any] = {}
        if self.peek() == "}":
            self.at += 1
            return found
        more = True
        while more:
            simple = _SIMPLE_MEMBER.match(self.text, self.at)
            if simple is not None:
                name, number, text, integer, end = simple.groups()
                found[int(number) if name is None else name] = int(integer) if text is None else text
                self.at = simple.end()
                more = end == ","
            else:
                key = self.key(depth)
                self.expect(":")
                found[key] = self.value(depth)
                more = self.more("}")
        return found

    def key(self, depth: int) -> str | int | ObjectKey:
        char = self.peek()
        if char in _PLAIN:
            return self.string(char)
        if char == "{":
            return self.object_key(depth)
        match = _INTEGER.match(self.text, self.at)
        if match is None:
            raise self.error("expected a key")
        return self.integer(match)

    def object_key(self, depth: int) -> ObjectKey:
        start = self.at
        members = self.object(depth + 1)
        if any(isinstance(value, list | dict) for value in members.values()) or not all(
            isinstance(name, str) for name in members
        ):
            self.at = start
            raise self.error("an object used as a key may hold plain values only")
        return ObjectKey(members)

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.error("expected a value")
        if match.end() == match.end(1):
            return self.integer(match)
        value = float(match.group())
        if math.isinf(value):
            raise self.error("number out of range")
        self.at = match.end()
        return value

    def integer(self, match: re.Match[str]) -> int:
        if match.end() - match.start() > MAX_INTEGER_TEXT:
            raise self.error("number out of range")
        self.at = match.end()
        return int(match.group())

    def string(self, quote: str) -> str:
        text, plain = self.text, _PLAIN[quote]
        start = self.at + 1
        end = plain.match(text, start).end()  # type: ignore[union-attr]  # it matches nothing, too
        if text[end : end + 1] == quote:  # nearly always: no escapes
            self.at = end + 1
            return text[start:end]
        parts = []
        while text[end : end + 1] == "\\":
            parts.append(text[start:end])
            self.at = end
            parts.append(self.escape())
            start = self.at
            end = plain.match(text, start).end()  # type: ignore[union-attr]
        if end >= len(text):
            raise self.error("string without an end")
        parts.append(text[start:end])
        self.at = end + 1
        return _join_surrogates("".join(parts))

    def escape(self) -> str:
        char = self.text[self.at + 1 : self.at + 2]
        if char in _ESCAPES:
            self.at += 2
            return _ESCAPES[char]
        digits = _HEX4.match(self.text, self.at + 2)
        if char != "u" or digits is None:
            raise self.error("unknown escape")
        self.at += 6
        return chr(int(digits.group(), 16))


def _join_surrogates(text: str) -> str:
    """Pairs of escaped surrogates as the one character they mean; a single one, which no encoding can carry,
    as U+FFFD."""
    if _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
