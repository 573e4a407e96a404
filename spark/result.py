"""What a job is asked and what it answers.

A job is a module with `run(stores: Stores, ask: Ask) -> Result`. It raises `mqctl.errors.MqError` (`NotFound` for a
topic that no store has, `StoreError` for a folder that is none) where it can say in one line what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Ask:
    """The options of all jobs; each takes those that concern it. Times are milliseconds since 1970, `since_ms` is
    included, `until_ms` is not, and both are store times."""

    topic: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    now_ms: int = 0
    by: tuple[str, ...] = ()  # what a row is about: names of columns, or none for what the job thinks best
    bucket_s: int = 0  # 0: as long as the whole span asks for
    top: int = 20
    seconds: bool = False
    key: str = ""
    other: str = ""  # of `diff`: the store to compare with, in the form that `Stores` takes
    query: str = ""
    out: str = ""
    reserved_h: int = 72  # of `retention`: the broker's fileReservedTime and deleteWhen
    delete_when: str = "04"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Ask:
        """Members that this version does not know are an error: a job must not do something else than was asked."""
        given: dict[str, Any] = json.loads(text)
        unknown = given.keys() - {each.name for each in fields(cls)}
        if unknown:
            raise ValueError(f"unknown options: {', '.join(sorted(unknown))}")
        members: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
        }
        return cls(**members)


@dataclass(frozen=True, slots=True)
class Plot:
    """Which columns of a result make a picture. `kind` is "lines" or "bars"; with `series` there is one line or one
    colour for each value of that column."""

    kind: str
    x: str
    y: str
    series: str | None = None
    title: str = ""


@dataclass(slots=True)
class Result:
    """`frame` holds the final rows in their order. It is small, unless the job is one that hands out messages.
    `notes` are told on stderr beside the rows. `exit_code` is what the program ends with: 1 says that damage was
    found."""

    title: str
    frame: DataFrame
    notes: Sequence[str] = field(default_factory=list)
    exit_code: int = 0
    plot: Plot | None = None
