"""Configuration: from RocketMQ's keys and text to typed structs, and back.

A configuration is a msgspec Struct whose encoded names are RocketMQ's keys (`rename="camel"`, or
`field(name="brokerIP1")` where Java's spelling is odd) and whose defaults are RocketMQ's defaults. Types say
what a value may be; `Annotated[int, Meta(ge=0)]`, enums and `X | None` included.
"""

from __future__ import annotations

import difflib
import enum
import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo

from mqctl.errors import ConfigError, RequestFailed
from mqctl.properties import decode_text, format_properties, load_properties, parse_properties
from mqctl.remoting.codes import ResponseCode

__all__ = [
    "bind",
    "changed_keys",
    "decode_text",
    "dump",
    "format_properties",
    "load_properties",
    "parse_properties",
    "update_over_wire",
]

log = logging.getLogger(__name__)

S = TypeVar("S", bound=msgspec.Struct)

# How much of a bad value an error repeats: it travels in an answer and lands in logs.
MAX_QUOTED: Final = 200

# How many unknown keys of one request the log names: looking for near ones costs a millisecond each.
MAX_NAMED: Final = 10

_BOOLEANS: Final = {"true": True, "false": False}


def bind(kind: type[S], properties: Mapping[str, str], source: str) -> tuple[S, list[str]]:
    """The struct that `properties` describe, and one warning for each key it does not have.

    An unknown key is no error: files written for Apache's broker name features that are not here. Raises
    ConfigError for a value of the wrong type and for a required key that is absent; `source` says in every
    text where the properties came from.
    """
    fields = _fields(kind)
    warnings = [f"{source}: {_unknown(key, fields)}" for key in properties if key not in fields]
    try:
        values = _convert_known(fields, properties)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    missing = [key for key, field in fields.items() if field.required and field.name not in values]
    if missing:
        raise ConfigError(f"{source}: {', '.join(missing)} must be set")
    return kind(**values), warnings


def dump(config: msgspec.Struct) -> str:
    """Every key as properties text, in the order of declaration; None is left out, as Java does with null."""
    values = {key: getattr(config, field.name) for key, field in _fields(type(config)).items()}
    return format_properties({key: _text(value) for key, value in values.items() if value is not None})


def update_over_wire(config: S, properties: Mapping[str, str], protected: frozenset[str]) -> S:
    """A copy of `config` with what a remote operator asked to change; all of it or nothing.

    `protected` names the keys that no request may set. Everything that is a path, an address or a command has
    to be there: CVE-2023-33246 and CVE-2023-37582 were such keys of RocketMQ. Unknown keys are ignored, as
    RocketMQ's Configuration.update ignores them, because tools set a key on every server of a mixed cluster
    and must not fail at those that lack the feature; the log says so. Raises RequestFailed for a protected
    key and, unlike RocketMQ, which drops it silently, for a value of the wrong type.
    """
    forbidden = sorted(protected & properties.keys())
    if forbidden:
        text = f"{', '.join(forbidden)} cannot be set over the network"
        raise RequestFailed(ResponseCode.NO_PERMISSION, text)
    fields = _fields(type(config))
    unknown = [key for key in properties if key not in fields]
    for key in unknown[:MAX_NAMED]:
        log.warning("configuration update: %s, ignored", _unknown(key[:MAX_QUOTED], fields))
    try:
        values = _convert_known(fields, properties)
    except ValueError as error:
        raise RequestFailed(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return msgspec.structs.replace(config, **values)


def changed_keys(before: msgspec.Struct, after: msgspec.Struct) -> dict[str, str]:
    """RocketMQ's keys whose values differ, with the names of their attributes; both structs are of one kind."""
    return {
        key: field.name
        for key, field in _fields(type(before)).items()
        if getattr(before, field.name) != getattr(after, field.name)
    }


# -- keys -----------------------------------------------------------------------------------------------


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _unknown(key: str, known: Iterable[str]) -> str:
    # Nearness must not depend on case: `listenport` is the likeliest slip of all.
    by_lower = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(key.lower(), by_lower, n=1)
    suggestion = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
    return f"unknown key {key}{suggestion}"


# -- values ---------------------------------------------------------------------------------------------


def _convert_known(fields: Mapping[str, FieldInfo], properties: Mapping[str, str]) -> dict[str, Any]:
    """Attribute name to value. Raises ValueError that says key, value and what is expected."""
    values: dict[str, Any] = {}
    for key, text in properties.items():
        field = fields.get(key)
        if field is None:
            continue
        try:
            values[field.name] = _convert(text, field.type)
        except ValueError:
            raise ValueError(f"{key}={text[:MAX_QUOTED]!r}: expected {_expected(field.type)}") from None
    return values


def _convert(text: str, kind: Any) -> Any:
    info = inspect.type_info(kind)
    if isinstance(info, inspect.UnionType):
        if not text:
            return None
        info = _without_none(info)
    if isinstance(info, inspect.StrType):
        return msgspec.convert(text, kind)
    # Java keeps blanks at the end of a value and then fails on the number; nobody wants that.
    text = text.strip()
    if isinstance(info, inspect.BoolType):
        if text.lower() not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text.lower()]
    if isinstance(info, inspect.IntType) and not text.removeprefix("-").isdecimal():
        raise ValueError(text)  # msgspec would take 1e3
    return msgspec.convert(text, kind, strict=False)


def _expected(kind: Any) -> str:
    info = inspect.type_info(kind)
    if isinstance(info, inspect.UnionType):
        info = _without_none(info)
    if isinstance(info, inspect.BoolType):
        return "true or false"
    if isinstance(info, inspect.IntType):
        return "a whole number" + _bounds(info)
    if isinstance(info, inspect.FloatType):
        return "a number" + _bounds(info)
    if isinstance(info, inspect.EnumType):
        return "one of " + ", ".join(str(member.value) for member in info.cls)
    if isinstance(info, inspect.LiteralType):
        return "one of " + ", ".join(map(str, info.values))
    return "another text"


def _without_none(union: inspect.UnionType) -> inspect.Type:
    return next(info for info in union.types if not isinstance(info, inspect.NoneType))


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {info.ge} to {info.le}"
    if info.ge is not None:
        return f" of at least {info.ge}"
    if info.le is not None:
        return f" of at most {info.le}"
    return ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, enum.Enum) else value)
