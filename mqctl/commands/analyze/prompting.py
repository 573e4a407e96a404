"""A prompt for SQL: the same Spark answers one statement after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

PROMPT: Final = "sql> "
MORE: Final = "...> "
WAYS_OUT: Final = ("exit", "quit")


def statements() -> Iterator[str]:
    """What is typed, up to each semicolon at the end of a line; until Ctrl-D. Ctrl-C drops what was begun."""
    with contextlib.suppress(ImportError):  # the one-file program has none
        import readline  # noqa: F401 - with it `input` edits lines and remembers them

    begun: list[str] = []
    while True:
        try:
            line = input(MORE if begun else PROMPT).rstrip()
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            begun.clear()
            continue
        if not begun and line.rstrip(";").lower() in WAYS_OUT:
            return
        if line:
            begun.append(line)
        if line.endswith(";"):
            yield "\n".join(begun)
            begun.clear()
