"""`mqctl analyze retries`, `delays`, `transactions`, `trace`: messages on their way."""

from __future__ import annotations

from typing import Annotated

import typer

from mqctl.commands.analyze.asking import (
    BucketOption,
    GroupsOption,
    SinceOption,
    TopicsOption,
    TopOption,
    UntilOption,
    names,
    seconds_of,
    span,
)
from mqctl.commands.analyze.running import run_job
from mqctl.commands.analyze.shared import JobCommand, PlotCommand, app
from mqctl.commands.common import session_of

MessagesOption = Annotated[bool, typer.Option("--messages", help="One row for each message.")]


def _by(messages: bool) -> tuple[str, ...]:
    return ("message",) if messages else ()


@app.command(cls=JobCommand)
def retries(
    ctx: typer.Context,
    topics: TopicsOption = None,
    groups: GroupsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    messages: MessagesOption = False,
    top: TopOption = 20,
) -> None:
    """Show what consumers could not handle: which group, which topic, how often, and what became a dead letter.

    \b
    Examples:
      mqctl analyze retries --store ~/store
      mqctl analyze retries --store ~/store -g order-service --messages
    """
    times = span(session_of(ctx), since, until)
    run_job(ctx, "retries", topic=names(topics), group=names(groups), **times, by=_by(messages), top=top)


@app.command(cls=PlotCommand)
def delays(
    ctx: typer.Context,
    topics: TopicsOption = None,
    bucket: BucketOption = None,
    messages: MessagesOption = False,
    top: TopOption = 20,
) -> None:
    """Show delayed messages that wait, and when they will be delivered.

    \b
    Examples:
      mqctl analyze delays --store ~/store
      mqctl analyze delays --store ~/store --bucket 1h --plot due.html
      mqctl analyze delays --store ~/store -t orders --messages --top 100
    """
    run_job(ctx, "delays", topic=names(topics), bucket_s=seconds_of(bucket), by=_by(messages), top=top)


@app.command(cls=JobCommand)
def transactions(
    ctx: typer.Context,
    topics: TopicsOption = None,
    groups: Annotated[
        list[str] | None, typer.Option("-g", "--group", metavar="GROUP", help="Only of this producer group.")
    ] = None,
    top: TopOption = 20,
) -> None:
    """Show transactions without an end, how old they are, and how often their producers were asked.

    \b
    Examples:
      mqctl analyze transactions --store ~/store
      mqctl analyze transactions --store ~/store -t orders -o json
    """
    run_job(ctx, "transactions", topic=names(topics), group=names(groups), top=top)


@app.command(cls=JobCommand)
def trace(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key, a unique key or an offset message id.")],
    topics: TopicsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> None:
    """Show the life of a message over topics, delays, retries and dead letters.

    \b
    Examples:
      mqctl analyze trace o-4711 --store '/mnt/brokers/*'
      mqctl analyze trace 7F000001000051AF0000000000000000 --store ~/store --from -1d
    """
    run_job(ctx, "trace", key=key, topic=names(topics), **span(session_of(ctx), since, until))
