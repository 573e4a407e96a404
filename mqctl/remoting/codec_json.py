"""The JSON header codec (serialize type 0), the default of every client.

Key names and their order are Java's; a reader must not depend on the order. `extFields` is left undecoded
here: `Command.header` decodes it once it is known which fields the request code has.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec

from mqctl.remoting.codes import LanguageCode

T = TypeVar("T")

NO_EXT: Final = msgspec.Raw(b"")
_LANGUAGE_NAMES: Final = {member.value: member.name for member in LanguageCode}
_OTHER: Final = int(LanguageCode.OTHER)
# Java accepts a name or an ordinal and tolerates names it does not know.
_LANGUAGE_CODES: Final[dict[str | int | None, int]] = {
    key: member.value for member in LanguageCode for key in (member.name, member.value)
}

# Java's int: a value outside wraps around there, so it is refused here.
_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class JsonHeader(msgspec.Struct, rename="camel", gc=False):
    """What is read. extFields stay as they are, NO_EXT where there are none."""

    code: _Int = 0
    language: str | int | None = "JAVA"
    version: _Int = 0
    opaque: _Int = 0
    flag: _Int = 0
    remark: str | None = None
    ext_fields: msgspec.Raw = NO_EXT


class _Written(msgspec.Struct, rename="camel", gc=False):
    """What is written, in Java's order."""

    code: int
    ext_fields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serialize_type: str = msgspec.field(name="serializeTypeCurrentRPC")
    version: int


_decoder: Final = msgspec.json.Decoder(JsonHeader, strict=False)
_ext_decoder: Final = msgspec.json.Decoder(dict[str, Any] | None)
_encode_json: Final = msgspec.json.Encoder().encode


def decode(header: bytes) -> JsonHeader:
    """Raises ValueError (msgspec's errors are) when the header is not JSON of the right shape."""
    try:
        return _decoder.decode(header)
    except RecursionError:
        raise ValueError("nested too deeply") from None


_typed_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def typed_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Decodes extFields straight into `kind`; text is converted to the numbers the fields declare."""
    decoder = _typed_decoders.get(kind)
    if decoder is None:
        decoder = _typed_decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    return decoder


def decode_ext(raw: msgspec.Raw) -> dict[str, str]:
    """extFields as text. Java turns numbers and booleans into text and keeps null as absent: so do we.
    Raises ValueError, whatever the bytes are."""
    try:
        members = _ext_decoder.decode(raw) or {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"extFields: {error}") from None
    return {name: _as_text(value) for name, value in members.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode_json(value).decode()


def encode(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext: dict[str, str] | None
) -> bytes:
    return _encode_json(
        _Written(
            code,
            msgspec.UNSET if ext is None else ext,
            flag,
            _LANGUAGE_NAMES.get(language, "OTHER"),
            opaque,
            msgspec.UNSET if remark is None else remark,
            "JSON",
            version,
        )
    )


def language_code(language: str | int | None) -> int:
    return _LANGUAGE_CODES.get(language, _OTHER)
