"""Frames: cutting a byte stream into (header, body) pairs and joining them again.

    offset  size  field
    0       4     length of what follows: 4 + header length + body length
    4       4     top byte: codec of the header (0 JSON, 1 ROCKETMQ binary); low 24 bits: header length
    8       n     header
    8 + n   rest  body

All integers are big-endian and signed, as Java writes them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, NoReturn

LENGTH: Final = Struct(">i")
PREFIX: Final = Struct(">iI")
CODEC_SHIFT: Final = 24
HEADER_LENGTH_MASK: Final = 0xFFFFFF

# What Java's decoder allows (com.rocketmq.remoting.frameMaxLength). Without a bound a peer that claims a
# length of 2 GiB makes us buffer until memory is gone.
MAX_FRAME: Final = 16 * 1024 * 1024


class FrameError(ValueError):
    """The bytes are not a frame. Nothing after them can be trusted, so the connection must close."""


class Frame(NamedTuple):
    codec: int
    header: bytes
    body: bytes


class FrameSplitter:
    """Turns arbitrary chunks of a stream into whole frames; keeps only the unfinished tail.

    `feed` returns every frame that the chunk completes. It raises FrameError at the first impossible
    length; frames before that point in the same chunk are lost with the connection they came on.
    """

    __slots__ = ("_max_frame", "_parts", "_parts_size", "_wanted")

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._parts: list[bytes] = []
        self._parts_size = 0
        # How many bytes must be there before looking again: keeps a large frame that arrives in
        # small chunks from being joined and re-read once per chunk.
        self._wanted = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._parts:
            self._parts.append(chunk)
            self._parts_size += len(chunk)
            if self._parts_size < self._wanted:
                return []
            chunk = b"".join(self._parts)
            self._parts.clear()
        frames: list[Frame] = []
        position, end = 0, len(chunk)
        wanted = 0
        while end - position >= 8:
            length, word = PREFIX.unpack_from(chunk, position)
            header_length = word & HEADER_LENGTH_MASK
            if not 4 <= length <= self._max_frame:
                self._refuse_length(length)
            if header_length > length - 4:
                raise FrameError(f"header length {header_length} exceeds the frame of {length} bytes")
            frame_end = position + 4 + length
            if frame_end > end:
                wanted = frame_end - position
                break
            header_end = position + 8 + header_length
            frames.append(Frame(word >> CODEC_SHIFT, chunk[position + 8 : header_end], chunk[header_end:frame_end]))
            position = frame_end
        if position < end:
            if wanted == 0 and end - position >= LENGTH.size:
                # A bad length is refused as soon as its four bytes are there, not when the rest arrives.
                (length,) = LENGTH.unpack_from(chunk, position)
                if not 4 <= length <= self._max_frame:
                    self._refuse_length(length)
            self._parts.append(chunk[position:] if position else chunk)
            self._parts_size = end - position
            self._wanted = wanted or (4 if end - position < 4 else PREFIX.size)
        return frames

    def _refuse_length(self, length: int) -> NoReturn:
        raise FrameError(f"frame length {length} is not within 4..{self._max_frame}")

    @property
    def pending(self) -> int:
        """Bytes of an unfinished frame."""
        return self._parts_size if self._parts else 0


def join_frame(codec: int, header: bytes, body: bytes) -> bytes:
    """One frame as bytes. The caller keeps header and body within MAX_FRAME."""
    header_length = len(header)
    return PREFIX.pack(4 + header_length + len(body), codec << CODEC_SHIFT | header_length) + header + body
