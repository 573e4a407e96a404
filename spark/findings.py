"""What a check finds: damage, or a note about what is normal under the circumstances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

DAMAGE: Final = "damage"
NOTE: Final = "note"

# More findings of one kind than this are not asked for: whoever reads them has long understood.
MOST_FINDINGS: Final = 1000

# More than this about one file are only counted.
MAX_PER_FILE: Final = 20


class Finding(NamedTuple):
    """`file` is relative to the store, `position` a byte in it, or in the log or queue where `file` is a folder."""

    store: str
    severity: str
    file: str
    position: int | None
    what: str


def damage(store: str, file: str, position: int | None, what: str) -> Finding:
    return Finding(store, DAMAGE, file, position, what)


def note(store: str, file: str, what: str) -> Finding:
    return Finding(store, NOTE, file, None, what)


def limited(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Sorted, damage first; of each file the first ones, and how many more there are."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in sorted(
        findings, key=lambda each: (each.severity, each.store, each.file, each.position or 0, each.what)
    ):
        counts[each[:3]] += 1
        if counts[each[:3]] <= MAX_PER_FILE:
            yield each
    for (store, severity, file), count in counts.items():
        if count > MAX_PER_FILE:
            yield Finding(store, severity, file, None, f"and {count - MAX_PER_FILE} more")
