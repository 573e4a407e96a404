"""`mqctl analyze lag`, `traffic`, `latency`, `keys`, `skew`, `sizes`, `retention`: how much, how fast, how even."""

from __future__ import annotations

from typing import Annotated

import typer

from mqctl.commands.analyze.asking import (
    BucketOption,
    ByOption,
    GroupsOption,
    SinceOption,
    TopicsOption,
    TopOption,
    UntilOption,
    listed,
    names,
    seconds_of,
    span,
)
from mqctl.commands.analyze.running import run_job
from mqctl.commands.analyze.shared import JobCommand, PlotCommand, app
from mqctl.commands.common import session_of


@app.command(cls=PlotCommand)
def lag(
    ctx: typer.Context,
    topics: TopicsOption = None,
    groups: GroupsOption = None,
    seconds: Annotated[bool, typer.Option("--seconds", help="Also for how long; reads one record per queue.")] = False,
    by: ByOption = None,
    top: TopOption = 100,
) -> None:
    """Show how far consumer groups are behind, which of them are gone, and which queues nobody reads.

    It reads the ends of the consume queues and the offsets that the broker has saved, which a running broker does every
    few seconds; the log is not opened without --seconds. By any of store, group, topic, queue, state.

    \b
    Examples:
      mqctl analyze lag --store ~/store
      mqctl analyze lag --store '/mnt/brokers/*' --by group,topic --seconds
      mqctl analyze lag --store ~/store -g order-service --plot lag.html
    """
    run_job(ctx, "lag", topic=names(topics), group=names(groups), seconds=seconds, by=listed(by), top=top)


@app.command(cls=PlotCommand)
def traffic(
    ctx: typer.Context,
    topics: TopicsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    by: ByOption = None,
    bucket: BucketOption = None,
    top: TopOption = 20,
) -> None:
    """Show how many messages and bytes came, by time and topic or whatever else.

    By any of time, store, topic, queue, tag, host, code (the hash of the tag); time and topic if not said. By store,
    topic, queue and code alone the log is not read, which makes it quick however large it is.

    \b
    Examples:
      mqctl analyze traffic --store ~/store
      mqctl analyze traffic --store ~/store --from -2h --bucket 5m --plot traffic.html
      mqctl analyze traffic --store a=/mnt/a/store --store b=/mnt/b/store --by topic,tag,host --top 50
    """
    run_job(
        ctx,
        "traffic",
        topic=names(topics),
        **span(session_of(ctx), since, until),
        by=listed(by),
        bucket_s=seconds_of(bucket),
        top=top,
    )


@app.command(cls=PlotCommand)
def latency(
    ctx: typer.Context,
    topics: TopicsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    top: TopOption = 20,
) -> None:
    """Show how long messages take from their producer to the broker, and to consumers where clients trace.

    \b
    Examples:
      mqctl analyze latency --store ~/store
      mqctl analyze latency --store ~/store -t orders --from -1d -o json
    """
    run_job(ctx, "latency", topic=names(topics), **span(session_of(ctx), since, until), top=top)


@app.command(cls=JobCommand)
def keys(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Only about this key or message id.")] = "",
    topics: TopicsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    top: TopOption = 20,
) -> None:
    """Show keys that come often, messages that came twice, and the producers that sent them.

    \b
    Examples:
      mqctl analyze keys --store ~/store
      mqctl analyze keys o-4711 --store ~/store -t orders
    """
    run_job(ctx, "keys", key=key, topic=names(topics), **span(session_of(ctx), since, until), top=top)


@app.command(cls=JobCommand)
def skew(
    ctx: typer.Context,
    topics: TopicsOption = None,
    top: TopOption = 20,
) -> None:
    """Show which queues and brokers hold more than their share of a topic.

    \b
    Examples:
      mqctl analyze skew --store '/mnt/brokers/*'
      mqctl analyze skew --store ~/store -t orders
    """
    run_job(ctx, "skew", topic=names(topics), top=top)


@app.command(cls=JobCommand)
def sizes(
    ctx: typer.Context,
    topics: TopicsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    top: TopOption = 20,
) -> None:
    """Show how large the messages of each topic are.

    \b
    Examples:
      mqctl analyze sizes --store ~/store
      mqctl analyze sizes --store ~/store --from -1d --top 5 -o csv
    """
    run_job(ctx, "sizes", topic=names(topics), **span(session_of(ctx), since, until), top=top)


@app.command(cls=PlotCommand)
def retention(
    ctx: typer.Context,
    reserved: Annotated[
        int, typer.Option("--reserved", min=1, metavar="HOURS", help="The brokers' fileReservedTime.")
    ] = 72,
    delete_when: Annotated[
        str, typer.Option("--delete-when", metavar="HOUR[;HOUR]", help="The brokers' deleteWhen.")
    ] = "04",
) -> None:
    """Show how fast a store grows, what cleaning will delete and when, and how long the disk will last.

    Only the first record of each log file is read, and the last one.

    \b
    Examples:
      mqctl analyze retention --store ~/store
      mqctl analyze retention --store ~/store --reserved 48 --plot growth.html
    """
    run_job(ctx, "retention", reserved_h=reserved, delete_when=delete_when)
