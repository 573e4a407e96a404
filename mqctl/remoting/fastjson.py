"""JSON the way Java's fastjson writes it, read and written.

RocketMQ's bodies and config files are almost JSON. The exception is a map whose keys are not text: fastjson
writes such a key without quotes, `{0:4}` for an integer and `{{"queueId":0,...}:5}` for an object. So reading
tries strict JSON first, in C, and walks the text by hand only when that fails.

What to write is dictated by what both Java decoders take (tried with 4.9.7's fastjson and 5.5's fastjson2):
an integer key may be quoted or not; an object key must not, 5.5 fails on one given as an escaped string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from mqctl.remoting.fastjson_reader import FastjsonError, ObjectKey, read
from mqctl.remoting.fastjson_tables import read_tables

__all__ = ["MAX_LOOSE", "FastjsonError", "ObjectKey", "dumps", "dumps_pretty", "int_keys", "loads"]

V = TypeVar("V")

# Loose JSON is read by Python code, on a server's event loop too: an honest table takes 0.1 s per MiB, bytes
# chosen to hurt ten times that. No more than a frame comes over the wire; take less from strangers.
MAX_LOOSE: Final = 16 * 1024 * 1024

_STRICT: Final = msgspec.json.Decoder()
_SORTED: Final = msgspec.json.Encoder(order="sorted")


def loads(data: bytes | bytearray | memoryview, *, loose_limit: int = MAX_LOOSE) -> Any:
    """Plain Python values. Unquoted integer keys become int (quoted ones stay str), object keys ObjectKey.

    Raises FastjsonError, whatever the bytes are; also for more than `loose_limit` bytes that are not strict.
    """
    try:
        return _STRICT.decode(data)
    except RecursionError:
        raise FastjsonError("nested too deeply", 0) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        return read_tables(data) if len(data) <= loose_limit else read(data, loose_limit)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return read(data, loose_limit)


def int_keys(table: Mapping[Any, V]) -> dict[int, V]:
    """A table known to have integer keys, quoted or not. Raises ValueError where a key is not a number."""
    return {int(key): value for key, value in table.items()}


def dumps(value: Any) -> bytes:
    """The bytes of a body: members sorted, None and UNSET ones dropped; integer keys quoted, object keys not.

    Takes what JSON knows, bytes (as base64), sets, and msgspec structs, which may be keys as well. Raises
    TypeError for anything else.
    """
    try:
        encoded = _SORTED.encode(value)
    except TypeError:  # keys that are not text
        return _write(value, 0, False).encode()
    # The C encoder writes None as null. Text that merely looks like it costs a second pass, nothing more.
    return _write(value, 0, False).encode() if b":null" in encoded else encoded


def dumps_pretty(value: Any) -> bytes:
    """The bytes of a config file, laid out as fastjson 1.x does it, so that ours and Java's compare well.

    That is: tabs; keys that are not text are neither quoted nor given a line of their own; a list takes a
    line per element, while a tuple or a set stays on one line like Java's arrays and sets.
    """
    return _write(value, 0, True).encode()


def _write(value: Any, depth: int, pretty: bool) -> str:
    if type(value) is int:  # first, since offset tables are made of these
        return str(value)
    if isinstance(value, msgspec.Struct):
        if not pretty and (whole := _in_c(value)):
            return whole
        members = zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True)
        return _write_object(sorted(members, key=itemgetter(0)), depth, pretty)
    if isinstance(value, Mapping):
        return _write_object(_ordered(value), depth, pretty)
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return _write_array(items, depth, pretty and isinstance(value, list))
    return msgspec.json.encode(value).decode()


def _in_c(value: msgspec.Struct) -> str | None:
    """A struct without loose parts, such as the keys and values of a table of offsets: six times as fast."""
    try:
        encoded = _SORTED.encode(value)
    except TypeError:
        return None
    return None if b":null" in encoded else encoded.decode()


def _write_object(members: Iterable[tuple[Any, Any]], depth: int, pretty: bool) -> str:
    texts = [
        f"{_write_key(key, depth + 1, pretty)}:{_write(value, depth + 1, pretty)}"
        for key, value in members
        if value is not None and value is not msgspec.UNSET
    ]
    return "{" + ",".join(texts) + (_line(depth) if pretty and texts else "") + "}"


def _write_key(key: Any, depth: int, pretty: bool) -> str:
    if isinstance(key, int):
        return f"{key:d}" if pretty else f'"{key:d}"'
    line = _line(depth) if pretty and isinstance(key, str) else ""
    return line + _write(key, depth, pretty)


def _write_array(items: Iterable[Any], depth: int, pretty: bool) -> str:
    line = _line(depth + 1) if pretty else ""
    texts = [line + _write(item, depth + 1, pretty) for item in items]
    return "[" + ",".join(texts) + (_line(depth) if pretty and texts else "") + "]"


def _line(depth: int) -> str:
    return "\n" + "\t" * depth


def _ordered(table: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    try:
        return sorted(table.items(), key=itemgetter(0))
    except TypeError:  # ObjectKeys, or keys of several kinds: as they came
        return table.items()
