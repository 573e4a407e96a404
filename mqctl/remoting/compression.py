"""Message bodies, compressed and back, as the sysFlag of a record says.

Producers compress, consumers expand, the broker passes bytes through. The expanded size is never announced
in a way that can be trusted, so every reader here counts what comes out and stops at a limit.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from mqctl.store.record import SYS_COMPRESSED

COMPRESSION_TYPE_MASK: Final = 0x700

# A kilobyte of zlib can expand to a megabyte. RocketMQ's brokers take bodies of 4 MiB by default; 64 MiB
# leaves room for raised limits and still keeps one hostile message from filling the memory of a consumer.
MAX_BODY: Final = 64 * 1024 * 1024

# What a zstd frame may ask us to hold as its window: 128 MiB, the most that any level of the zstd library
# uses and the most that Java's reader allows. A frame is free to ask for terabytes.
MAX_ZSTD_WINDOW: Final = 128 * 1024 * 1024

# Compressed bytes given to zstd at a time. Four of them can stand for a block of 128 KiB, so the reader may
# overshoot its limit by at most 8 MiB before it notices.
ZSTD_STEP: Final = 256

DEFAULT_LEVEL: Final = 5  # the Java producer's default, for all kinds


class CompressionError(ValueError):
    """A body that does not expand: damaged, cut short, of an unknown kind, or larger than the limit."""


class Compression(IntEnum):
    """The kind, as it stands in bits 8-10 of the sysFlag."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


def compress(data: bytes, kind: Compression = Compression.ZLIB, level: int = DEFAULT_LEVEL) -> tuple[bytes, int]:
    """Return the compressed bytes and the sysFlag bits that go with them. LZ4 has no levels, as in Java."""
    return _WRITERS[kind](data, level), SYS_COMPRESSED | kind


def decompress(data: bytes, sys_flag: int, limit: int = MAX_BODY) -> bytes:
    """Return the body as the producer had it; bytes without the compressed flag come back as they are.

    Raises CompressionError when they do not expand to at most `limit` bytes. Bytes after the end of the
    compressed stream are ignored.
    """
    if not sys_flag & SYS_COMPRESSED:
        return data
    kind = sys_flag & COMPRESSION_TYPE_MASK
    try:
        # Clients before 4.9.3 knew zlib only and set no kind.
        reader = _READERS[Compression(kind) if kind else Compression.ZLIB]
    except ValueError:
        raise CompressionError(f"unknown compression type {kind >> 8} in sysFlag {sys_flag:#x}") from None
    body = reader(data, limit)
    if len(body) > limit:
        raise CompressionError(f"body expands to more than {limit} bytes")
    return body


# Each reader returns at most limit + 1 bytes; the one too many tells "too large" from "exactly the limit".


def _read_zlib(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise CompressionError(f"zlib: {error}") from error
    if not stream.eof and len(body) <= limit:
        raise CompressionError("zlib: the stream ends early")
    return body


def _read_lz4(data: bytes, limit: int) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        body: bytes = stream.decompress(data, limit + 1)
    except RuntimeError as error:
        raise CompressionError(f"lz4: {error}") from error
    if not stream.eof and len(body) <= limit:
        raise CompressionError("lz4: the frame ends early")
    return body


def _read_zstd(data: bytes, limit: int) -> bytes:
    import zstandard

    # Not stream_reader: that one takes a frame cut short for the whole. This object knows the end of the
    # frame but has no output limit, hence the small steps.
    stream = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW).decompressobj()
    body = bytearray()
    try:
        for start in range(0, len(data), ZSTD_STEP):
            body += stream.decompress(data[start : start + ZSTD_STEP])
            if stream.eof or len(body) > limit:
                return bytes(body[: limit + 1])
    except zstandard.ZstdError as error:
        raise CompressionError(f"zstd: {error}") from error
    raise CompressionError("zstd: the frame ends early")


def _write_zlib(data: bytes, level: int) -> bytes:
    return zlib.compress(data, level)


def _write_lz4(data: bytes, _level: int) -> bytes:
    import lz4.frame

    # The frame that lz4-java's LZ4FrameOutputStream writes. Linked blocks are what python-lz4 would choose,
    # and LZ4FrameInputStream refuses them.
    frame: bytes = lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False)
    return frame


def _write_zstd(data: bytes, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


_READERS: Final[dict[Compression, Callable[[bytes, int], bytes]]] = {
    Compression.LZ4: _read_lz4,
    Compression.ZSTD: _read_zstd,
    Compression.ZLIB: _read_zlib,
}
_WRITERS: Final[dict[Compression, Callable[[bytes, int], bytes]]] = {
    Compression.LZ4: _write_lz4,
    Compression.ZSTD: _write_zstd,
    Compression.ZLIB: _write_zlib,
}
