"""What the outside gives to a command, in one object that a test replaces whole."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TextIO

# Set by the completion scripts: which shell wants to know what fits at the cursor.
SHELL_VARIABLE: Final = "_MQCTL_SHELL"


@dataclass(slots=True)
class Environment:
    """Data goes to `stdout`, everything else to `stderr`. `clock` counts seconds since 1970."""

    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], float] = time.time

    @property
    def on_terminal(self) -> bool:
        return self.stdout.isatty()

    @property
    def colored(self) -> bool:
        """See no-color.org: the variable counts when it holds anything at all."""
        return self.on_terminal and not self.variables.get("NO_COLOR")

    def say(self, text: str) -> None:
        """For people; flushed, because what follows may take a while."""
        print(text, file=self.stderr, flush=True)

    def report(self, message: str, hint: str | None) -> None:
        """An error: what went wrong, and what to do next where that is known."""
        self.say(f"error: {message}")
        if hint:
            self.say(f"hint: {hint}")
