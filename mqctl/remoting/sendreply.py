"""The answer to a send. A busy broker writes little else, so it is formatted in one step: the JSON encoder is asked
once for an answer with gaps, and each message fills them. That takes a third of the time."""

from __future__ import annotations

from typing import Final

import msgspec

from mqctl.remoting import codec_json
from mqctl.remoting.codes import VERSION_4_9_7
from mqctl.remoting.command import LANGUAGE, RESPONSE_FLAG, Command, decode_frame
from mqctl.remoting.frames import PREFIX, FrameSplitter

_OPAQUE: Final = 0x4F504151  # a number that stands nowhere else in the template


def reply_template(msg_id_prefix: str, fixed: dict[str, str]) -> bytes:
    """A JSON header with gaps for (log offset, queue id, queue offset, opaque); `fixed` are its other fields."""
    fields = {name: value.replace("%", "%%") for name, value in fixed.items()}
    ext = {"msgId": f"{msg_id_prefix}%016X", "queueId": "%d", "queueOffset": "%d", **fields}
    header = codec_json.encode(0, LANGUAGE, VERSION_4_9_7, _OPAQUE, RESPONSE_FLAG, None, ext)
    return header.replace(b"%d" % _OPAQUE, b"%d")


class SendReply(msgspec.Struct, gc=False, eq=False):
    """The success of one message, for a client that speaks JSON."""

    template: bytes
    phys_offset: int
    queue_id: int
    queue_offset: int
    opaque: int

    def encode(self) -> bytes:
        """The whole frame."""
        header = self.template % (self.phys_offset, self.queue_id, self.queue_offset, self.opaque)
        return PREFIX.pack(4 + len(header), len(header)) + header

    def as_command(self) -> Command:
        return decode_frame(FrameSplitter().feed(self.encode())[0])
