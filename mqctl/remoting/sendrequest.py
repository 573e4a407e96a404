"""The request to store a message. A busy producer writes little else, so its header is formatted in one step, as in
`sendreply`: the JSON encoder is asked once for each queue, and each message fills the gaps."""

from __future__ import annotations

from typing import Final

import msgspec

from mqctl.remoting import codec_json
from mqctl.remoting.codes import VERSION_4_9_7, LanguageCode
from mqctl.remoting.command import Command, decode_frame
from mqctl.remoting.frames import PREFIX, FrameSplitter

_encode_text: Final = msgspec.json.Encoder().encode


def request_template(code: int, fixed: dict[str, str]) -> bytes:
    """A JSON header with gaps for (sys flag, born timestamp, message flag, properties, flag, opaque); `fixed` are its
    other fields."""
    gaps = {"f": "%d", "g": "%d", "h": "%d", "i": "%b"}
    ext = {**gaps, **{name: value.replace("%", "%%") for name, value in fixed.items()}}
    header = codec_json.encode(code, LanguageCode.PYTHON, VERSION_4_9_7, 0, 0, None, ext)
    # No value of a field looks like these: quotes inside of one are escaped.
    for mark, gap in ((b'"flag":0', b'"flag":%d'), (b'"opaque":0', b'"opaque":%d'), (b'"i":"%b"', b'"i":%b')):
        header = header.replace(mark, gap)
    return header


class SendRequest(msgspec.Struct, gc=False, eq=False):
    """What `Command` is for other requests."""

    code: int
    template: bytes
    sys_flag: int
    born_ms: int
    message_flag: int
    properties: str
    body: bytes
    flag: int = 0
    opaque: int = 0

    def encode(self) -> bytes:
        """The whole frame."""
        header = self.template % (
            self.sys_flag,
            self.born_ms,
            self.message_flag,
            _encode_text(self.properties),
            self.flag,
            self.opaque,
        )
        return PREFIX.pack(4 + len(header) + len(self.body), len(header)) + header + self.body

    def as_command(self) -> Command:
        return decode_frame(FrameSplitter().feed(self.encode())[0])
