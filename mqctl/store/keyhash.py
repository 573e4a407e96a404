"""Hashes of index keys, many at a time.

The index files a key under the absolute value of Java's hash of ``topic#key``. Unique keys never repeat, so a
cache is no help, and a loop over characters would be the dearest part of storing a message. Instead the keys are
the rows of one matrix of characters, filled up on the left with NUL, which adds nothing to a polynomial. And a
polynomial can be cut anywhere: hash(topic#key) = hash(topic#) * 31**len(key) + hash(key).

Importing numpy takes a tenth of a second: whoever needs this module imports it when it comes to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqctl.store.javahash import java_hash

# The longest key that gets a row in the matrix. Unique keys have 32 characters, or 56 with an IPv6 address.
_WIDEST: Final = 64

# 31**n, in the arithmetic of Java's int: whatever overflows is gone.
_POWERS: Final = np.array([pow(31, n, 1 << 32) for n in range(_WIDEST + 1)], np.uint32)


def key_hashes(topics: Sequence[str], keys: Sequence[str]) -> NDArray[np.int32]:
    """For each key and its topic what RocketMQ's IndexFile.indexKeyHashMethod returns: never negative."""
    if max(map(len, keys), default=0) <= _WIDEST and "".join(keys).isascii():
        return _absolute(_plain_hashes(topics, keys))
    plain = [len(key) <= _WIDEST and key.isascii() for key in keys]
    each = (java_hash.__wrapped__(f"{topic}#{key}") for topic, key in zip(topics, keys, strict=True))
    hashes = np.fromiter(each, np.int64).astype(np.uint32)
    hashes[plain] = _plain_hashes(list(compress(topics, plain)), list(compress(keys, plain)))
    return _absolute(hashes)


def _plain_hashes(topics: Sequence[str], keys: Sequence[str]) -> NDArray[np.uint32]:
    prefixes = {topic: _prefix_hash(topic) for topic in set(topics)}
    beginnings = np.fromiter(map(prefixes.__getitem__, topics), np.uint32, len(topics))
    lengths = np.fromiter(map(len, keys), np.intp, len(keys))
    return beginnings * _POWERS[lengths] + _text_hashes(keys, int(lengths.max(initial=1)))


def _text_hashes(texts: Sequence[str], width: int) -> NDArray[np.uint32]:
    width = max(width, 1)
    filled = "".join([text.rjust(width, "\0") for text in texts]).encode("ascii")
    characters = np.frombuffer(filled, np.uint8).reshape(len(texts), width)
    return characters.astype(np.uint32) @ _POWERS[:width][::-1]


def _absolute(unsigned: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Math.abs of each as a signed number; -2**31 has no positive twin and becomes 0."""
    hashes = np.abs(unsigned.view(np.int32))
    hashes[hashes < 0] = 0
    return hashes


@lru_cache(maxsize=4096)
def _prefix_hash(topic: str) -> int:
    return java_hash.__wrapped__(f"{topic}#") & 0xFFFFFFFF
