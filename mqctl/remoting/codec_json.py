"""The JSON header codec (serialize type 0), the default of every client.

Key names and their order are Java's; a reader must not depend on the order. `extFields` is left undecoded
here: `Command.header` decodes it once it is known which fields the request code has.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from mqctl.remoting.codes import LanguageCode

T = TypeVar("T")

_NO_EXT: Final = msgspec.Raw(b"")
_LANGUAGE_NAMES: Final = {member.value: member.name for member in LanguageCode}
_LANGUAGE_CODES: Final = {member.name: member.value for member in LanguageCode}


class JsonHeader(msgspec.Struct, rename="camel", gc=False):
    code: int = 0
    language: str | int | None = "JAVA"
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext_fields: msgspec.Raw = _NO_EXT


_decoder: Final = msgspec.json.Decoder(JsonHeader, strict=False)
_ext_decoder: Final = msgspec.json.Decoder(dict[str, Any])
_encode_json: Final = msgspec.json.Encoder().encode

# opaque and flag travel as Java ints: a value outside wraps around there, so we refuse it here.
_INT32: Final = range(-(2**31), 2**31)


def decode(header: bytes) -> JsonHeader:
    """Raises ValueError (msgspec's errors are) when the header is not JSON of the right shape."""
    decoded = _decoder.decode(header)
    if decoded.opaque not in _INT32 or decoded.flag not in _INT32 or decoded.code not in _INT32:
        raise ValueError("code, opaque or flag is not a 32-bit integer")
    return decoded


_typed_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def typed_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Decodes extFields straight into `kind`; text is converted to the numbers the fields declare."""
    decoder = _typed_decoders.get(kind)
    if decoder is None:
        decoder = _typed_decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    return decoder


def present(ext_fields: msgspec.Raw) -> bytes | None:
    """extFields as bytes; None where there are none."""
    raw = bytes(ext_fields)
    return raw if raw and raw != b"null" else None


def decode_ext(raw: bytes) -> dict[str, str]:
    """extFields as text. Java turns numbers and booleans into text and keeps null as absent: so do we."""
    try:
        members = _ext_decoder.decode(raw)
    except msgspec.MsgspecError:
        return {}
    return {name: _as_text(value) for name, value in members.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode_json(value).decode()


def encode(
    code: int,
    language: int,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: dict[str, str] | None,
) -> bytes:
    header: dict[str, Any] = {"code": code}
    if ext is not None:
        header["extFields"] = ext
    header["flag"] = flag
    header["language"] = _LANGUAGE_NAMES.get(language, "OTHER")
    header["opaque"] = opaque
    if remark is not None:
        header["remark"] = remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = version
    return _encode_json(header)


def language_code(language: str | int | None) -> int:
    """Java accepts a name or an ordinal and tolerates names it does not know."""
    if isinstance(language, str):
        return _LANGUAGE_CODES.get(language, LanguageCode.OTHER)
    return language if language in _LANGUAGE_NAMES else LanguageCode.OTHER
