"""Java's String.hashCode, which decides tag codes in consume queues and slots in index files."""

from __future__ import annotations

from functools import lru_cache
from struct import iter_unpack


@lru_cache(maxsize=65536)
def java_hash(text: str) -> int:
    """Signed 32-bit `h = 31 * h + unit` over the UTF-16 code units. Cached: tags repeat."""
    value = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
