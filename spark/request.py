"""What `mqctl analyze` hands to the driver on its command line."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from spark.result import Ask

# A listing that is longer belongs into files: nobody reads it, and the driver holds it in memory.
MAX_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Request:
    """`stores` is what `Stores` takes. With `out` the rows go there as files of `format`; with `rows` they are told
    over `socket`. `prompt`: all questions come over the socket."""

    job: str
    stores: str
    ask: Ask
    format: str = ""
    out: str = ""
    run: str = ""  # tells what several runs leave beside `out` apart
    rows: bool = True
    socket: str = ""
    prompt: bool = False
    max_rows: int = MAX_ROWS

    def encode(self) -> str:
        """One word without any character that a shell, the JVM's launcher or YARN (which takes `}}` for its own) would
        touch."""
        members = asdict(replace(self, ask=Ask())) | {"ask": self.ask.to_json()}
        return base64.urlsafe_b64encode(json.dumps(members).encode()).decode()

    @classmethod
    def decode(cls, word: str) -> Request:
        members = json.loads(base64.urlsafe_b64decode(word))
        return cls(**members | {"ask": Ask.from_json(members["ask"])})


def staging_name(out: str, run: str) -> str:
    """Where a run writes until all is there. Readers pass over names that begin with a dot."""
    parent, _, name = out.rstrip("/").rpartition("/")
    return f"{parent}/.{name}.{run}.partial"
