"""Java's `.properties` text: RocketMQ's format of configuration, in files and over the wire.

    # comment, also with !
    key = value        the separator is `=`, `:` or just blanks; blanks around it do not count
    long = one \\
           two         a backslash at the end joins the next line, without its leading blanks
    path = C:\\\\mq      escapes: \\t \\n \\r \\f \\uXXXX (UTF-16); elsewhere the backslash just vanishes

The last of two equal keys wins. Blanks at the end of a value belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mqctl.errors import ConfigError

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED_CONTROLS: Final = {char: "\\" + letter for letter, char in _CONTROLS.items()}


def load_properties(path: Path) -> dict[str, str]:
    """The file's keys and values. Raises ConfigError when it cannot be read or holds a broken escape."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    return parse_properties(decode_text(data), str(path))


def decode_text(data: bytes) -> str:
    """Java reads Latin-1; people write UTF-8. What is not UTF-8 is taken for Latin-1, which never fails."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """Keys and values of the text. Raises ConfigError, with `source` and line, at a broken `\\u` escape."""
    properties: dict[str, str] = {}
    for number, _, line in _logical_lines(text):
        match = _ENTRY.match(line)
        assert match is not None  # every part of the pattern may be empty
        try:
            properties[_unescape(match[1])] = _unescape(match[2])
        except ValueError as error:
            raise ConfigError(f"{source}, line {number}: {error}") from None
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """One `key=value` per line, in the mapping's order. Pure ASCII, so that any reader's charset will do.

    Values are escaped only where a reader needs it: an address stays `127.0.0.1:9876`, as in RocketMQ's own
    output, for tools that split lines at `=` and unescape nothing.
    """
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in properties.items())


def with_values(text: str, changed: Mapping[str, str]) -> str:
    """The text with these values, everything else in it as it was, comments too. New keys go to its end. Raises
    ConfigError at a broken `\\u` escape."""
    parse_properties(text)  # finds what is broken
    lines, left = _LINE_END.split(text), dict(changed)
    # From the end: there is the one of several equal keys that counts, and numbers of lines before it stay true.
    for first, last, line in reversed(list(_logical_lines(text))):
        match = _ENTRY.match(line)
        key = _unescape(match[1]) if match is not None else ""
        if key in changed:
            lines[first - 1 : last] = [format_properties({key: left.pop(key)}).rstrip("\n")] if key in left else []
    end = "\n".join(lines).rstrip("\n")
    return (end + "\n" if end else "") + format_properties(left)


# -- reading --------------------------------------------------------------------------------------------


def _logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Lines joined where they end in a backslash, each with the numbers of its first and last line; no comments."""
    joined, first, goes_on = "", 0, False
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not goes_on:
            if not line or line[0] in "#!":
                continue
            joined, first = "", number
        # An even number of backslashes is half as many escaped ones; an odd one leaves one for the line end.
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if goes_on else line
        if not goes_on and joined:
            yield first, number, joined
    if goes_on and joined:
        yield first, number, joined


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape_one, text)
    # Two \uXXXX may be the halves of one character; a half alone is no character at all.
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    escape = match[1]
    if escape == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    return _CONTROLS.get(escape, escape)


# -- writing --------------------------------------------------------------------------------------------


def _escape_key(key: str) -> str:
    return "".join("\\" + char if char in " =:#!" else _escape_char(char) for char in key)


def _escape_value(value: str) -> str:
    rest = value.lstrip(" ")
    return "\\ " * (len(value) - len(rest)) + "".join(map(_escape_char, rest))


def _escape_char(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return _ESCAPED_CONTROLS.get(char) or "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
