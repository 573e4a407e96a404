"""Frames out of a stream of bytes: whole, cut anywhere, impossible, hostile."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqctl.remoting.frames import MAX_FRAME, Frame, FrameError, FrameSplitter, join_frame

frames = st.builds(Frame, st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=40))


def stream(*several: Frame) -> bytes:
    return b"".join(join_frame(*frame) for frame in several)


def fed(splitter: FrameSplitter, *chunks: bytes) -> list[Frame]:
    return [frame for chunk in chunks for frame in splitter.feed(chunk)]


def test_one_frame_as_bytes() -> None:
    data = join_frame(1, b"header", b"body")
    assert data == bytes.fromhex("0000000e 01000006") + b"headerbody"
    assert FrameSplitter().feed(data) == [Frame(1, b"header", b"body")]


def test_header_and_body_may_be_empty() -> None:
    assert FrameSplitter().feed(bytes.fromhex("00000004 00000000")) == [Frame(0, b"", b"")]


def test_several_frames_in_one_chunk() -> None:
    sent = [Frame(0, b"a", b"1"), Frame(1, b"", b""), Frame(0, b"ccc", b"")]
    splitter = FrameSplitter()
    assert splitter.feed(stream(*sent)) == sent
    assert splitter.pending == 0


def test_a_cut_at_every_byte() -> None:
    sent = [Frame(0, b"first", b"1"), Frame(1, b"", b"2"), Frame(0, b"third", b"")]
    data = stream(*sent)
    for cut in range(len(data) + 1):
        assert fed(FrameSplitter(), data[:cut], data[cut:]) == sent


def test_byte_by_byte() -> None:
    sent = [Frame(0, b"first", b"1"), Frame(1, b"", b"2")]
    splitter = FrameSplitter()
    assert fed(splitter, *(bytes((byte,)) for byte in stream(*sent))) == sent
    assert splitter.pending == 0


@given(st.lists(frames, max_size=6), st.data())
def test_any_chunking_yields_the_same_frames(sent: list[Frame], data: st.DataObject) -> None:
    whole = stream(*sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    bounds = [0, *cuts, len(whole)]
    splitter = FrameSplitter()
    assert fed(splitter, *(whole[a:b] for a, b in itertools.pairwise(bounds))) == sent
    assert splitter.pending == 0


@given(st.lists(frames, max_size=3), frames, st.data())
def test_an_unfinished_frame_is_pending(whole: list[Frame], last: Frame, data: st.DataObject) -> None:
    tail = join_frame(*last)
    tail = tail[: data.draw(st.integers(0, len(tail) - 1))]
    splitter = FrameSplitter()
    assert splitter.feed(stream(*whole) + tail) == whole
    assert splitter.pending == len(tail)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("ffffffff 00000000", "length -1"),
        ("80000000 00000000", "length -2147483648"),
        ("00000000 00000000", "length 0"),
        ("00000003 00000000", "length 3"),
        ("01000001 00000000", "length 16777217"),
        ("7fffffff 00000000", "length 2147483647"),
        ("00000004 00000001", "header length 1 exceeds"),
        ("00000010 0000000d 00", "header length 13 exceeds"),
        ("00000010 00ffffff 00", "header length 16777215 exceeds"),
    ],
)
def test_impossible_lengths(data: str, complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        FrameSplitter().feed(bytes.fromhex(data))


@pytest.mark.parametrize("length", ["ffffffff", "00000003", "01000001"])
def test_a_bad_length_is_refused_with_its_fourth_byte(length: str) -> None:
    splitter = FrameSplitter()
    raw = bytes.fromhex(length)
    assert splitter.feed(raw[:3]) == []
    with pytest.raises(FrameError):
        splitter.feed(raw[3:])


def test_a_bad_frame_behind_a_good_one() -> None:
    with pytest.raises(FrameError):
        FrameSplitter().feed(join_frame(0, b"good", b"") + bytes.fromhex("ffffffff"))


def test_the_maximum_itself_is_accepted() -> None:
    exactly = join_frame(0, b"h" * 10, b"b" * 86)
    assert len(exactly) == 104
    assert FrameSplitter(max_frame=100).feed(exactly) == [Frame(0, b"h" * 10, b"b" * 86)]
    with pytest.raises(FrameError, match="length 100 "):
        FrameSplitter(max_frame=99).feed(exactly)


def test_the_default_maximum_is_javas() -> None:
    assert MAX_FRAME == 16_777_216


@pytest.mark.timeout(20)
def test_a_large_frame_in_small_chunks_costs_no_more_than_its_size() -> None:
    """Joined again for every chunk, the largest frame in 1 KiB pieces would copy 128 GiB."""
    data = join_frame(0, b"h", bytes(MAX_FRAME - 5))
    splitter = FrameSplitter()
    chunks = [data[at : at + 1024] for at in range(0, len(data), 1024)]
    (frame,) = fed(splitter, *chunks)
    assert len(frame.body) == MAX_FRAME - 5


@given(st.lists(st.binary(max_size=64), max_size=8))
@example([bytes.fromhex("00000004"), b"\x00", b"\x00\x00\x01"])
def test_hostile_bytes_raise_nothing_else(chunks: list[bytes]) -> None:
    splitter = FrameSplitter(max_frame=256)
    try:
        fed(splitter, *chunks)
    except FrameError:
        return
    assert splitter.pending <= 256 + 4
