"""The bits that stand for a consumer in config/consumerFilter.json."""

from __future__ import annotations

import pytest

from mqctl.filter.bloom import BloomFilter, murmur3


@pytest.mark.parametrize(
    ("text", "hash_64"),
    [
        ("", 0),
        ("hello", 0xCBD8A7B341BD9B02),
        ("hello, world", 0x342FAC623A5EBC8E),
        ("The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
    ],
)
def test_published_hashes(text: str, hash_64: int) -> None:
    assert murmur3(text.encode()) == hash_64


def test_the_defaults_give_the_size_that_apache_computes() -> None:
    bloom = BloomFilter(20, 32)
    assert (bloom.bits, bloom.hashes) == (112, 3)
