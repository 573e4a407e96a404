"""`mqctl replay`: messages of a topic, or of a store folder, into a topic once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of, single
from mqctl.commands.completing import complete_topics
from mqctl.commands.msg.shared import (
    MatchOption,
    SinceOption,
    SqlOption,
    TagOption,
    UntilOption,
    time_option,
)
from mqctl.commands.replaying import Run
from mqctl.errors import MqError
from mqctl.exit import ExitCode
from mqctl.figures import count_text
from mqctl.output import Column
from mqctl.replays import Replay, record_of, unfinished
from mqctl.times import time_text

app = single()

REPLAYED: Final = [
    Column("topic"),
    Column("into"),
    Column("messages", show=count_text),
    Column("firstTimestamp", "FIRST", time_text),
    Column("lastTimestamp", "LAST", time_text),
]


@app.command(cls=AdminCommand)
def replay(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="TOPIC", autocompletion=complete_topics, help="Where they are sent to."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Read this store folder instead of a cluster.")
    ] = None,
    to_namesrv: Annotated[
        str | None,
        typer.Option("--to-namesrv", metavar="ADDR[;ADDR]", help="Send to the cluster of these name servers."),
    ] = None,
    to_context: Annotated[
        str | None, typer.Option("--to-context", metavar="NAME", help="Or to the cluster of this name.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tag: TagOption = "*",
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only those with this key.")] = None,
    sql: SqlOption = None,
    match: MatchOption = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", min=0.001, metavar="X", help="1 is the original pace, 10 ten times as fast."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.01, metavar="N", help="At most so many a second.")
    ] = None,
    max_count: Annotated[int | None, typer.Option("--max", min=1, metavar="N", help="So many at most.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last one that was interrupted, or the last of TOPIC.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Send what a topic holds into a topic once more, of the same cluster or another.

    Bodies, keys, tags and properties are kept; the copies have ids of their own. Messages of one queue stay in order in
    one queue. Without --speed they go as fast as the brokers take them. What arrives after the start is not
    replayed. A topic that does not exist is created if the brokers allow that.

    What was interrupted, by whatever, goes on with --resume where it was: with the options that it was begun with, save
    --speed and --rate if given anew, and without sending a message twice.

    \b
    Examples:
      mqctl replay orders --into orders-test --since 2h --until 1h
      mqctl replay orders --into orders --to-context staging --speed 1
      mqctl replay orders --into orders-again --store ~/store --sql "region = 'eu'" --rate 500 --yes
      mqctl replay orders --into orders-test --since 1d --dry-run
      mqctl replay --resume --yes
    """
    session = session_of(ctx)
    if resume:
        wanted = unfinished(session.env, topic)
        wanted.speed, wanted.rate = speed or wanted.speed, rate or wanted.rate
        session.namesrv = wanted.name_servers
    else:
        if topic is None or into is None:
            raise typer.BadParameter("name a topic, and another one with --into; or give --resume")
        wanted = Replay(
            topic=topic, into=into, name_servers=session.name_servers,
            target=_target(session, to_namesrv, to_context), store=None if store is None else str(store.absolute()),
            since=time_option(session, since, "--since"), until=time_option(session, until, "--until"),
            tag=tag, key=key, sql=sql, match=match, speed=speed, rate=rate, max_count=max_count,
            started=int(session.env.clock() * 1000),
        )  # fmt: skip
    _run(session, Run(session, wanted, resume), dry_run, yes)


def _run(session: Session, run: Run, dry_run: bool, yes: bool) -> None:
    wanted = run.wanted
    source = f"{wanted.topic} of {wanted.store}" if wanted.store is not None else wanted.topic
    if dry_run:
        session.ask(run.count_all)
    else:
        rest = "the rest of the messages" if run.resumed else "the messages"
        confirm(session, f"Send {rest} of {source} to {wanted.into} at {wanted.target}?", yes)
        _send(session, run)
    session.print_rows(REPLAYED, [run.row()])
    if dry_run:
        session.env.say("nothing was sent")


def _send(session: Session, run: Run) -> None:
    record = record_of(session.env, run.wanted)
    done = False
    try:
        session.ask(lambda admin: run.send(admin, record))
        done = True
    except KeyboardInterrupt:
        run.tell_where("stopped")
        session.print_rows(REPLAYED, [run.row()])
        raise typer.Exit(ExitCode.PARTIAL) from None
    except MqError:
        run.tell_where("failed")
        raise
    finally:
        record.close(done=done)


def _target(session: Session, namesrv: str | None, context: str | None) -> str:
    if namesrv is not None and context is not None:
        raise typer.BadParameter("name one cluster", param_hint="--to-namesrv and --to-context")
    if context is not None:
        from mqctl.contexts import name_servers

        return name_servers(session.env.variables, context) or session.name_servers
    return namesrv or session.name_servers
