"""Message bodies in the three formats, against bytes that RocketMQ's own compressors made."""

import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqctl.remoting.compression import Compression, CompressionError, compress, decompress

kinds = pytest.mark.parametrize("kind", list(Compression))
HELLO = b"hello hello hello hello hello"

# HELLO through CompressorFactory of 4.9.7 (5.5.0 makes the same bytes), level 5.
FROM_JAVA = {
    Compression.LZ4: "04224d186070730f0000006e68656c6c6f2006005068656c6c6f00000000",
    Compression.ZSTD: "28b52ffd00586400003068656c6c6f200100a94b11010000",
    Compression.ZLIB: "785ecb48cdc9c957c8c04e0200a3100ae5",
}


@kinds
def test_reads_what_java_wrote(kind: Compression) -> None:
    assert decompress(bytes.fromhex(FROM_JAVA[kind]), 0x1 | kind) == HELLO


def test_the_flag_of_old_clients_means_zlib() -> None:
    assert decompress(bytes.fromhex(FROM_JAVA[Compression.ZLIB]), 0x1) == HELLO


def test_other_bits_do_not_matter() -> None:
    assert decompress(bytes.fromhex(FROM_JAVA[Compression.ZLIB]), 0x331 | 0x8) == HELLO


def test_plain_bodies_pass_through() -> None:
    assert decompress(HELLO, 0) is HELLO
    assert decompress(HELLO, 0x300) is HELLO  # a kind without the flag: Java looks at the flag alone


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x600, 0x700])
def test_unknown_kinds(kind: int) -> None:
    with pytest.raises(CompressionError, match="unknown compression type"):
        decompress(HELLO, 0x1 | kind)


def test_flag_bits() -> None:
    assert compress(b"x")[1] == 769  # what Java clients set
    assert compress(b"x", Compression.LZ4)[1] == 0x101
    assert compress(b"x", Compression.ZSTD)[1] == 0x201


def test_lz4_blocks_are_independent() -> None:
    """LZ4FrameInputStream refuses any other frame. Bit 5 of the byte after the magic says so."""
    frame, _ = compress(bytes(10_000_000), Compression.LZ4)
    assert frame[4] & 0x20


@kinds
@settings(deadline=None)  # the first example may have to load a library
@given(body=st.binary(max_size=4096), level=st.integers(1, 9))
def test_round_trip(kind: Compression, body: bytes, level: int) -> None:
    assert decompress(*compress(body, kind, level)) == body


@kinds
def test_the_limit_is_exact(kind: Compression) -> None:
    packed, flag = compress(bytes(100_000), kind)
    assert decompress(packed, flag, 100_000) == bytes(100_000)
    with pytest.raises(CompressionError, match="more than 99999 bytes"):
        decompress(packed, flag, 99_999)


@kinds
def test_a_bomb_stops_at_the_default_limit(kind: Compression) -> None:
    packed, flag = compress(bytes(65 * 1024 * 1024), kind)
    assert len(packed) < 1024 * 1024
    with pytest.raises(CompressionError, match="more than"):
        decompress(packed, flag)


@kinds
def test_a_body_cut_short_anywhere_is_an_error(kind: Compression) -> None:
    packed, flag = compress(HELLO * 20, kind)
    for end in range(len(packed)):
        with pytest.raises(CompressionError):
            decompress(packed[:end], flag)


@kinds
def test_bytes_after_the_end_are_ignored(kind: Compression) -> None:
    packed, flag = compress(HELLO, kind)
    assert decompress(packed + b"more", flag) == HELLO


def test_a_zstd_window_beyond_the_bound_is_refused() -> None:
    # Frame header: magic, no single segment, window descriptor 0xF8 = 2^41 bytes; then an empty last block.
    with pytest.raises(CompressionError):
        decompress(bytes.fromhex("28b52ffd00f8010000"), 0x201)


@settings(deadline=None)  # the first example may have to load a library
@given(data=st.binary(max_size=512), kind=st.sampled_from([0, 0x100, 0x200, 0x300, 0x400, 0x700]))
def test_hostile_bytes(data: bytes, kind: int) -> None:
    with suppress(CompressionError):
        decompress(data, 0x1 | kind, 4096)


@kinds
@settings(deadline=None)  # the first example may have to load a library
@given(data=st.data())
def test_damaged_bodies(kind: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(HELLO * 50, kind)[0])
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(CompressionError):
        decompress(bytes(packed), 0x1 | kind, 4096)


def test_libraries_are_loaded_only_when_used() -> None:
    script = (
        "import sys, mqctl.remoting.compression as c; c.decompress(*c.compress(b'x'));"
        "print(sorted({'lz4', 'zstandard'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
