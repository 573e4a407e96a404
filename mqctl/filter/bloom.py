"""The bits of a bloom filter that stand for a consumer, as config/consumerFilter.json keeps them.

Apache's broker throws the whole file away when these are missing or made with other settings than its own.
"""

from __future__ import annotations

import math
import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_FACTOR_1: Final = 0x87C37B91114253D5
_FACTOR_2: Final = 0x4CF5AD432745937F


class BloomFilter:
    """`error_percent` of the answers about `expected` members may be wrong; that gives the number of bits."""

    def __init__(self, error_percent: int, expected: int) -> None:
        bits_per_member = math.log2(100 / error_percent)
        self.hashes = math.ceil(bits_per_member)
        bits = math.ceil(expected * bits_per_member * math.log2(math.e))
        self.bits = math.ceil(bits / 8) * 8

    def positions(self, member: str) -> list[int]:
        """Two halves of one hash, combined anew for each position; in Java's 32-bit arithmetic."""
        whole = murmur3(member.encode())
        low, high = whole & 0xFFFFFFFF, whole >> 32
        return [_not_negative(low + turn * high) % self.bits for turn in range(1, self.hashes + 1)]


def _not_negative(number: int) -> int:
    number &= 0xFFFFFFFF
    return number if number < 0x80000000 else number ^ 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """The first 64 bits of the 128-bit MurmurHash3 for 64-bit machines, seed 0."""
    one = two = 0
    blocks, rest = divmod(len(data), 16)
    for first, second in struct.iter_unpack("<QQ", data[: blocks * 16]):
        one = ((_rotated(one ^ _mixed_1(first), 27) + two) * 5 + 0x52DCE729) & _MASK
        two = ((_rotated(two ^ _mixed_2(second), 31) + one) * 5 + 0x38495AB5) & _MASK
    if rest:
        first, second = struct.unpack("<QQ", data[blocks * 16 :].ljust(16, b"\0"))
        one ^= _mixed_1(first)
        two ^= _mixed_2(second)
    one ^= len(data)
    two ^= len(data)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    return (_final(one) + _final(two)) & _MASK


def _rotated(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> (64 - by)) & _MASK


def _mixed_1(block: int) -> int:
    return _rotated(block * _FACTOR_1, 31) * _FACTOR_2 & _MASK


def _mixed_2(block: int) -> int:
    return _rotated(block * _FACTOR_2, 33) * _FACTOR_1 & _MASK


def _final(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33
