"""Hashes of index keys: whatever the text, the same as the plain definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.store.index import key_hash
from mqctl.store.javahash import java_hash
from mqctl.store.keyhash import key_hashes

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=150)
ASCII_TEXT = st.text(st.characters(max_codepoint=127), max_size=150)


def plain(topic: str, key: str) -> int:
    value = abs(java_hash.__wrapped__(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


@pytest.mark.parametrize(
    ("topic", "key", "expected"),
    [
        ("fx_t1", "7F00000100000000000000000000AB01", 1460848597),
        ("fx_t1", "k1", 667318401),
        ("fx_t1", "k2", 667318400),
    ],
)
def test_hashes_seen_in_files_of_a_java_broker(topic: str, key: str, expected: int) -> None:
    assert key_hash(topic, key) == expected


@given(st.lists(st.tuples(ASCII_TEXT, ASCII_TEXT | ANY_TEXT), max_size=20))
def test_many_at_once_are_what_each_is_alone(pairs: list[tuple[str, str]]) -> None:
    topics, keys = [topic for topic, _ in pairs], [key for _, key in pairs]
    assert key_hashes(topics, keys).tolist() == [plain(topic, key) for topic, key in pairs]


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 20_000])
@pytest.mark.parametrize("letter", ["\0", "\x7f", "é", "中", "😀"])
def test_lengths_around_the_widths(length: int, letter: str) -> None:
    assert key_hashes(["topic"], [letter * length]).tolist() == [plain("topic", letter * length)]


def test_keys_of_many_lengths() -> None:
    keys = [f"{number:032X}"[: number % 40] for number in range(1000)]
    assert key_hashes(["t"] * 1000, keys).tolist() == [plain("t", key) for key in keys]


def key_with_hash(topic: str, wanted: int) -> str:
    """Seven characters that make topic#key hash to what is wanted: its digits in base 31, from "0" on."""
    zeros = java_hash(f"{topic}#0000000")
    rest = (wanted - zeros) % (1 << 32)
    digits = []
    for _ in range(7):
        rest, digit = divmod(rest, 31)
        digits.append(chr(ord("0") + digit))
    return "".join(reversed(digits))


@pytest.mark.parametrize(("wanted", "expected"), [(-(1 << 31), 0), (-1, 1), ((1 << 31) - 1, (1 << 31) - 1), (0, 0)])
def test_the_ends_of_the_range(wanted: int, expected: int) -> None:
    key = key_with_hash("t", wanted)
    assert java_hash(f"t#{key}") == wanted
    assert key_hash("t", key) == expected
    assert key_hashes(["t"], [key]).tolist() == [expected]
