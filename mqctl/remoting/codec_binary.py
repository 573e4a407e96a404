"""The ROCKETMQ binary header codec (serialize type 1).

    code            int16
    language        int8
    version         int16
    opaque          int32
    flag            int32
    remark length   int32, then that many bytes; 0 = no remark
    ext length      int32: bytes taken by all entries together; 0 = none
    entries         key length int16, key, value length int32, value, until the ext length is used up

A key or value of length 0 means null: such an entry does not exist.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

FIXED: Final = Struct(">hbhiii")  # up to and including the remark length
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")

MAX_KEY: Final = 0x7FFF

Fields = tuple[int, int, int, int, int, "str | None", dict[str, str]]


def encode(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext: dict[str, str]
) -> bytes:
    remark_bytes = remark.encode() if remark else b""
    entries = b"".join(_encode_entry(key, value) for key, value in ext.items() if key and value)
    # Java casts the code to a short as well: codes above 32767 cannot travel in this codec.
    return b"".join(
        (
            FIXED.pack(_int16(code), language, _int16(version), opaque, flag, len(remark_bytes)),
            remark_bytes,
            INT32.pack(len(entries)),
            entries,
        )
    )


def _int16(value: int) -> int:
    return (value + 0x8000 & 0xFFFF) - 0x8000


def _encode_entry(key: str, value: str) -> bytes:
    key_bytes, value_bytes = key.encode(), value.encode()
    if len(key_bytes) > MAX_KEY:
        raise ValueError(f"header field name of {len(key_bytes)} bytes: at most {MAX_KEY} fit")
    return INT16.pack(len(key_bytes)) + key_bytes + INT32.pack(len(value_bytes)) + value_bytes


def decode(header: bytes) -> Fields:
    """Raises ValueError where the lengths do not add up or the text is not UTF-8."""
    try:
        code, language, version, opaque, flag, remark_length = FIXED.unpack_from(header)
        remark, position = _take(header, FIXED.size, remark_length)
        (ext_length,) = INT32.unpack_from(header, position)
        position += INT32.size
        end = position + ext_length
        if ext_length < 0 or end > len(header):
            raise ValueError(f"ext fields of {ext_length} bytes do not fit")
        ext: dict[str, str] = {}
        while position < end:
            (key_length,) = INT16.unpack_from(header, position)
            key, position = _take(header, position + INT16.size, key_length)
            (value_length,) = INT32.unpack_from(header, position)
            value, position = _take(header, position + INT32.size, value_length)
            if key and value:
                ext[key] = value
        if position != end:
            raise ValueError("ext fields overrun their length")
    except StructError as error:
        raise ValueError(str(error)) from None
    return code, language, version, opaque, flag, remark or None, ext


def _take(buffer: bytes, start: int, length: int) -> tuple[str, int]:
    end = start + length
    if length < 0 or end > len(buffer):
        raise ValueError(f"a text of {length} bytes does not fit")
    return buffer[start:end].decode(), end
