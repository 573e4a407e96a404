"""The fast way through the commonest loose JSON: tables whose keys are objects, and which are strict otherwise.

Brokers answer with thousands of `{{"brokerName":..,"queueId":0,"topic":..}:{..},..}`. Such keys are put into quotes,
with a mark, the whole goes through the strict parser in C, and the marked keys become objects again: twice as fast
as the reader, which is Python. It may give up on anything; the reader then takes it.

A match that lies in a string, or begins in one, is no danger: the quote put there ends the string, behind which no `{`
may stand, so that the strict parser refuses the whole.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from mqctl.remoting.fastjson_reader import ObjectKey

# An object of plain members, where a key must be. Escapes would need more than quotes around them.
_KEY: Final = re.compile(rb'(?<=[{,])\{"[^{}\[\]\\]*\}(?=:)')
# Begins the keys that were objects. No text from a broker does.
_MARK: Final = "\0"
_STRICT: Final = msgspec.json.Decoder()


def read_tables(data: bytes | bytearray | memoryview) -> Any:
    """The value of the document. Raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError when it is none of
    this kind."""
    return _with_objects(_STRICT.decode(_KEY.sub(_quoted, data)))


def _quoted(match: re.Match[bytes]) -> bytes:
    return b'"\\u0000' + match[0].replace(b'"', b'\\"') + b'"'


def _with_objects(value: Any) -> Any:
    if type(value) is dict:
        return {
            ObjectKey(_STRICT.decode(key[1:])) if key[:1] == _MARK else key: _with_objects(member)
            for key, member in value.items()
        }
    if type(value) is list:
        return [_with_objects(item) for item in value]
    return value
