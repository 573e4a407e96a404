"""`mqctl dlq resend`: dead letters to where they came from, each once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
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
from mqctl.exit import ExitCode
from mqctl.output import Column, Row

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.deadletters import Sent
    from mqctl.client.admin.selecting import Selection

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
        str | None, typer.Option("--to", metavar="TOPIC", help="There, instead of to where each came from.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.01, metavar="N", help="At most so many a second.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Send dead letters again, each to the topic it came from, and say what became of each.

    A letter is sent once: one that was sent before, by whomever, is passed over. So a run that was interrupted, or
    that ended with failures, is simply started again. All groups that read the topic get the copies; consumers
    find the id of the first message in the property ORIGIN_MESSAGE_ID. Exit status 5 when some failed.

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
    write = session.stream(OUTCOMES, _outcome_line)
    counts: Counter[str] = Counter()

    async def work(admin: Admin) -> None:
        from mqctl.client.admin.copying import Copier
        from mqctl.client.admin.deadletters import send_again

        async with Copier(session.name_servers, timeout=session.timeout, credentials=session.credentials) as copier:
            letters = letters_of(admin, group, selection, max_count)
            async for sent in send_again(admin, copier, letters, topic=to, rate=rate, dry_run=dry_run):
                write(_outcome_row(sent))
                counts[sent.outcome] += 1

    try:
        session.ask(work)
    except KeyboardInterrupt:
        _tell(session, counts)
        session.env.say("stopped; start it again to go on")
        raise typer.Exit(ExitCode.PARTIAL) from None
    _tell(session, counts)
    bad = counts["failed"] + counts["unknown"]
    if bad:
        raise typer.Exit(ExitCode.REFUSED if bad == counts.total() else ExitCode.PARTIAL)


async def _count(admin: Admin, group: str, selection: Selection, max_count: int | None) -> int:
    return len([letter async for letter in letters_of(admin, group, selection, max_count)])


def _tell(session: Session, counts: Counter[str]) -> None:
    session.env.say(", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())) or "no dead letters")


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
