"""The options by which jobs are asked about a part of a store, and their values."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

from mqctl.commands.common import Session
from mqctl.times import parse_time

TopicsOption = Annotated[
    list[str] | None,
    typer.Option("-t", "--topic", metavar="TOPIC", help="Only this topic; may be given several times."),
]
GroupsOption = Annotated[
    list[str] | None,
    typer.Option("-g", "--group", metavar="GROUP", help="Only this consumer group; may be given several times."),
]
SinceOption = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Stored then or later.")]
UntilOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Stored before.")]
TopOption = Annotated[int, typer.Option("--top", min=1, metavar="N", help="So many rows, the largest first.")]
BucketOption = Annotated[
    str | None, typer.Option("--bucket", metavar="TIME", help="How long a row's time is: 30s, 5m, 1h, 1d.")
]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME[,NAME]", help="What a row is about.")]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d+)([smhd])")


def names(values: list[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


def listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def moment(session: Session, text: str | None, option: str) -> int | None:
    try:
        return None if text is None else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def span(session: Session, since: str | None, until: str | None) -> dict[str, Any]:
    return {"since_ms": moment(session, since, "--from"), "until_ms": moment(session, until, "--to")}


def seconds_of(text: str | None) -> int:
    """0 if nothing is given: the job chooses."""
    if text is None:
        return 0
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{text!r} is not a length of time: write 30s, 5m, 1h or 1d", param_hint="--bucket")
    return int(found[1]) * _SECONDS[found[2]]
