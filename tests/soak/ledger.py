"""Ledgers: what clients were promised and what they saw, one line each, written by workers and read by the parent.

a KIND ID     acknowledged: has to be consumed       c ID          consumed
x KIND ID     rolled back: must never be consumed    l WHAT MS     something took so long
e WHAT NAME   a call failed with this error          z             nobody who writes here sends any more
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO


class Ledger:
    """Append only; `flush` now and then."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a")

    def acknowledged(self, kind: str, name: str) -> None:
        self._file.write(f"a {kind} {name}\n")

    def rolled_back(self, kind: str, name: str) -> None:
        self._file.write(f"x {kind} {name}\n")

    def consumed(self, name: str) -> None:
        self._file.write(f"c {name}\n")

    def took(self, what: str, seconds: float) -> None:
        self._file.write(f"l {what} {seconds * 1000:.3f}\n")

    def failed(self, what: str, error: Exception) -> None:
        self._file.write(f"e {what} {type(error).__name__}\n")

    def silent(self) -> None:
        self._file.write("z\n")

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """How long it took goes into the ledger, if it succeeds."""
        begin = monotonic()
        yield
        self.took(what, monotonic() - begin)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class Books:
    """All ledgers of a folder put together; `read` takes up what was written since."""

    folder: Path
    acknowledged: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    rolled_back: set[str] = field(default_factory=set)
    consumed: set[str] = field(default_factory=set)
    deliveries: int = 0
    latencies_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    silent: int = 0  # ledgers
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    _read: defaultdict[Path, int] = field(default_factory=lambda: defaultdict(int))

    def read(self) -> None:
        for path in sorted(self.folder.glob("*.ledger")):
            with path.open("rb") as file:
                file.seek(self._read[path])
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] += len(whole)
            for line in whole.decode().splitlines():
                self._take(*line.split())

    def _take(self, mark: str, *words: str) -> None:
        if mark == "a":
            self.acknowledged[words[0]].add(words[1])
        elif mark == "c":
            self.deliveries += 1
            self.consumed.add(words[0])
        elif mark == "x":
            self.rolled_back.add(words[1])
        elif mark == "l":
            self.latencies_ms[words[0]].append(float(words[1]))
        elif mark == "z":
            self.silent += 1
        else:
            self.errors[words[0], words[1]] += 1

    def missing(self) -> dict[str, set[str]]:
        """By kind: what was acknowledged and has not come."""
        left = {kind: names - self.consumed for kind, names in self.acknowledged.items()}
        return {kind: names for kind, names in left.items() if names}

    def wrongly_consumed(self) -> set[str]:
        return self.rolled_back & self.consumed
