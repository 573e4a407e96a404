"""`mqctl replay`: messages of a topic, or of a store folder, into a topic once more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of, single
from mqctl.commands.completing import complete_topics
from mqctl.commands.msg.shared import (
    MatchOption,
    SinceOption,
    SqlOption,
    TagOption,
    TopicArgument,
    UntilOption,
    selection_of,
)
from mqctl.commands.telling import Counting
from mqctl.errors import MqError
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.results import SendResult
    from mqctl.client.selecting import Selection
    from mqctl.remoting.message import ReceivedMessage

app = single()

REPLAYED: Final = [
    Column("topic"),
    Column("into"),
    Column("messages"),
    Column("firstTimestamp", "FIRST", time_text),
    Column("lastTimestamp", "LAST", time_text),
]


@app.command(cls=AdminCommand)
def replay(
    ctx: typer.Context,
    topic: TopicArgument,
    into: Annotated[
        str, typer.Option("--into", metavar="TOPIC", autocompletion=complete_topics, help="Where they are sent to.")
    ],
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
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Send what a topic holds into a topic once more, of the same cluster or another.

    Bodies, keys, tags and properties are kept; the copies have ids of their own. Messages of one queue stay in order in
    one queue. Without --speed they go as fast as the brokers take them. What arrives after the start is not
    replayed. A topic that does not exist is created if the brokers allow that.

    \b
    Examples:
      mqctl replay orders --into orders-test --since 2h --until 1h
      mqctl replay orders --into orders --to-context staging --speed 1
      mqctl replay orders --into orders-again --store ~/store --sql "region = 'eu'" --rate 500 --yes
      mqctl replay orders --into orders-test --since 1d --dry-run
    """
    session = session_of(ctx)
    selection = selection_of(session, sql=sql, match=match, since=since, until=until, key=key)
    target = _target(session, to_namesrv, to_context)
    run = _Run(session, topic, into, max_count)

    async def work(admin: Admin) -> None:
        messages = run.limited(_source(session, admin, topic, tag, selection, store))
        if dry_run:
            async for message in messages:
                run.count(message)
        else:
            await run.send(messages, target, speed, rate)

    if not dry_run:
        source = f"{topic} of {store}" if store is not None else topic
        confirm(session, f"Send the messages of {source} to {into} at {target}?", yes)
    try:
        session.ask(work)
    except KeyboardInterrupt:
        session.env.say("stopped")
    except MqError:
        run.tell_where()
        raise
    session.print_rows(REPLAYED, [run.row()])
    if dry_run:
        session.env.say("nothing was sent")


def _target(session: Session, namesrv: str | None, context: str | None) -> str:
    if namesrv is not None and context is not None:
        raise typer.BadParameter("name one cluster", param_hint="--to-namesrv and --to-context")
    if context is not None:
        from mqctl.contexts import name_servers

        return name_servers(session.env.variables, context) or session.name_servers
    return namesrv or session.name_servers


async def _source(
    session: Session, admin: Admin, topic: str, tags: str, selection: Selection, store: Path | None
) -> AsyncIterator[ReceivedMessage]:
    from mqctl.commands.msg.reading import selected

    if store is None:
        async for message in selected(admin, topic, tags, selection):
            yield message
        return
    from mqctl.client.replaying import from_records
    from mqctl.store.offline.folder import StoreFolder
    from mqctl.store.offline.search import Query, search

    def damaged(start: int, end: int, what: str) -> None:
        session.env.say(f"warning: log offset {start}: {what}")

    wanted = frozenset(each.strip() for each in tags.split("||"))
    query = Query(topic=topic, key=selection.key, since=selection.since, until=selection.until)
    folder = StoreFolder(store, None)
    folder.queues_of(topic)
    async for message in from_records(search(folder, query, lambda found: found.body, damaged)):
        if selection.fits(message) and ("*" in wanted or message.tags in wanted):
            yield message


class _Run:
    """What has been done so far."""

    def __init__(self, session: Session, topic: str, into: str, max_count: int | None) -> None:
        self._session = session
        self._topic = topic
        self._into = into
        self._max = max_count
        self._count = 0
        self._first: int | None = None
        self._last: int | None = None

    async def limited(self, messages: AsyncIterator[ReceivedMessage]) -> AsyncIterator[ReceivedMessage]:
        taken = 0
        async for message in messages:
            yield message
            taken += 1
            if taken == self._max:
                return

    async def send(
        self, messages: AsyncIterator[ReceivedMessage], target: str, speed: float | None, rate: float | None
    ) -> None:
        import asyncio

        from mqctl.client.copying import Copier
        from mqctl.client.replaying import Pace, check_target, replay

        check_target(self._into)
        pace = Pace(speed, rate, asyncio.get_running_loop().time)
        with Counting(self._session, "sent", None) as told:

            def sent(message: ReceivedMessage, result: SendResult) -> None:
                self.count(message)
                told(self._count)

            async with Copier(target, timeout=self._session.timeout) as copier:
                await replay(messages, copier, self._into, pace, sent)

    def count(self, message: ReceivedMessage) -> None:
        self._count += 1
        stored = message.store_timestamp
        self._first = stored if self._first is None else min(self._first, stored)
        self._last = stored if self._last is None else max(self._last, stored)

    def tell_where(self) -> None:
        if self._last is not None:
            self._session.env.say(f"{self._count} messages were sent, the last one stored at {time_text(self._last)}")

    def row(self) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "into": self._into,
            "messages": self._count,
            "firstTimestamp": self._first,
            "lastTimestamp": self._last,
        }
