"""`mqctl dlq resend`: dead letters to where they came from, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.completing import complete_topics
from mqctl.commands.consumer.shared import GroupArgument
from mqctl.commands.dlq.shared import (
    IdsOption,
    MaxOption,
    MaxTriesOption,
    MinTriesOption,
    OriginOption,
    TagsOption,
    app,
    letters_of,
)
from mqctl.commands.msg.shared import MatchOption, SinceOption, SqlOption, UntilOption, selection_of
from mqctl.commands.telling import tell_missing
from mqctl.exit import ExitCode
from mqctl.output import Column, Row

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.deadletters import Sent
    from mqctl.client.admin.selecting import Selection
    from mqctl.errors import MqError

OUTCOMES: Final = [Column(name) for name in ("letterId", "msgId", "topic", "outcome", "newMsgId", "why")]


@app.command(cls=AdminCommand)
def resend(
    ctx: typer.Context,
    group: GroupArgument,
    topic: OriginOption = None,
    tags: TagsOption = None,
    ids: IdsOption = None,
    min_tries: MinTriesOption = 0,
    max_tries: MaxTriesOption = None,
    sql: SqlOption = None,
    match: MatchOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    max_count: MaxOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", autocompletion=complete_topics, help="There, instead of to where each came from."
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.01, metavar="N", help="At most so many a second.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Send dead letters again, each to the topic it came from, and say what became of each.

    A letter is sent once: one that was sent before, by whomever, is passed over and does not count for --max. So a run
    that was interrupted, or that ended with failures, is simply started again, and with --max it goes on where the last
    one ended. All groups that read the topic get the copies; consumers find the id of the first message in the property
    ORIGIN_MESSAGE_ID. Exit status 5 when some failed.

    \b
    Examples:
      mqctl dlq resend order-service --dry-run
      mqctl dlq resend order-service --since 1d --tag paid --rate 50 --yes
      mqctl dlq resend order-service --sql "region = 'eu'" --to orders-again
    """
    session = session_of(ctx)
    selection = selection_of(
        session, sql=sql, match=match, since=since, until=until,
        topic=topic, tags=tags or (), ids=ids or (), min_tries=min_tries, max_tries=max_tries,
    )  # fmt: skip
    if not dry_run and not yes:
        where = f"to {to}" if to is not None else "to the topics they came from"
        number = session.ask(lambda admin: _count(admin, group, selection, max_count))
        confirm(session, f"Send {number} dead letters of {group} {where}, as far as that was not done before?", yes)
    run = _Run(session, group, selection, max_count, to, rate)
    try:
        if dry_run:
            session.ask(run.look)
        else:
            run.send()
    except KeyboardInterrupt:
        run.tell()
        session.env.say("stopped; start it again to go on")
        raise typer.Exit(ExitCode.PARTIAL) from None
    run.tell()
    if run.bad and run.bad == run.counts.total():
        raise typer.Exit(ExitCode.REFUSED)
    if run.bad or run.missing:
        raise typer.Exit(ExitCode.PARTIAL)


async def _count(admin: Admin, group: str, selection: Selection, max_count: int | None) -> int:
    return len([letter async for letter in letters_of(admin, group, selection, max_count, {})])


@dataclass(slots=True)
class _Run:
    """What is wanted, and what has become of it so far."""

    session: Session
    group: str
    selection: Selection
    max_count: int | None
    to: str | None
    rate: float | None
    counts: Counter[str] = field(default_factory=Counter)
    missing: dict[str, MqError] = field(default_factory=dict)

    @property
    def bad(self) -> int:
        return self.counts["failed"] + self.counts["unknown"]

    async def look(self, admin: Admin) -> None:
        """Only says what would be sent."""
        await self._go(admin, {}, lambda sent: None, dry_run=True)

    def send(self) -> None:
        """What was sent last is kept for the next run, until one has nothing to leave to it."""
        from mqctl.client.admin.deadletters import Outcome
        from mqctl.resends import Resend, record_of

        resend = Resend(self.group, self.session.name_servers)
        record = record_of(self.session.env, resend)

        def keep(sent: Sent) -> None:
            if sent.outcome is Outcome.SENT:
                resend.add(sent.msg_id, sent.topic)
                record.save_sometimes()

        done = False
        try:
            resend.sent.update(record.earlier().get("sent", {}))
            self.session.ask(lambda admin: self._go(admin, resend.sent, keep))
            done = not self.bad
        finally:
            record.close(done=done)

    async def _go(
        self, admin: Admin, known: Mapping[str, str], keep: Callable[[Sent], None], *, dry_run: bool = False
    ) -> None:
        from mqctl.client.admin.copying import Copier
        from mqctl.client.admin.deadletters import Resender
        from mqctl.client.admin.replaying import Pace

        write = self.session.stream(OUTCOMES, _outcome_line)
        letters = letters_of(admin, self.group, self.selection, None, self.missing)
        async with Copier(
            self.session.name_servers, timeout=self.session.timeout, credentials=self.session.credentials
        ) as copier:
            resender = Resender(admin, copier, Pace(None, self.rate), self.to, known, dry_run)
            async for sent in resender.send(letters, self.max_count):
                keep(sent)
                write(_outcome_row(sent))
                self.counts[sent.outcome] += 1

    def tell(self) -> None:
        counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(self.counts.items()))
        self.session.env.say(counted or "no dead letters")
        tell_missing(self.session, self.missing)


def _outcome_row(sent: Sent) -> dict[str, Any]:
    return {
        "letterId": sent.letter.offset_msg_id,
        "msgId": sent.letter.msg_id,
        "topic": sent.topic,
        "outcome": sent.outcome,
        "newMsgId": sent.msg_id,
        "why": sent.why,
    }


def _outcome_line(row: Row) -> str:
    return f"{row['msgId']}  {row['topic']}  {row['outcome']}" + (f": {row['why']}" if row["why"] else "")
