"""What the commands about topics share: naming one, and reporting what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import Session, noun
from mqctl.commands.completing import complete_topics
from mqctl.exit import ExitCode
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin.topics import Outcome
    from mqctl.remoting.bodies import TopicConfig

app = noun("Create, change and describe topics.")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]


def config_text(config: dict[str, Any]) -> str:
    order = " ordered" if config["order"] else ""
    return f"w{config['writeQueueNums']} r{config['readQueueNums']} {config['perm']}{order}"


CHANGED: Final = [
    Column("brokerName", "BROKER"),
    Column("brokerAddr", "ADDRESS"),
    Column("before", show=config_text),
    Column("after", show=config_text),
]


def report(session: Session, outcomes: Sequence[Outcome], topic: str, what: str | None) -> None:
    """What every broker did, into the journal too if it was done (`what`); the exit status says whether all, some or
    none of them did it."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    columns = [*CHANGED, Column("error")] if failed else CHANGED
    session.print_rows(columns, [_outcome_row(outcome) for outcome in outcomes])
    for outcome in outcomes:
        _warn(session, outcome)
    if what is not None:
        write_down(session, outcomes, topic, what)
    if failed and len(failed) == len(outcomes):
        raise failed[0]
    if failed:
        raise typer.Exit(ExitCode.PARTIAL)


def write_down(session: Session, outcomes: Sequence[Outcome], topic: str, what: str) -> None:
    import msgspec

    from mqctl import journal

    changes = [
        journal.change(
            msgspec.to_builtins(outcome.before),
            msgspec.to_builtins(outcome.after),
            brokerAddr=outcome.address,
            topic=topic,
        )
        for outcome in outcomes
        if outcome.error is None
    ]
    journal.record(session.env, session.name_servers, "topic", f"{what} topic {topic}", changes)


def _outcome_row(outcome: Outcome) -> dict[str, Any]:
    return {
        "brokerName": outcome.broker_name,
        "brokerAddr": outcome.address,
        "before": config_row(outcome.before),
        "after": config_row(outcome.after),
        "error": outcome.error.message if outcome.error is not None else None,
    }


def config_row(config: TopicConfig | None) -> dict[str, Any] | None:
    from mqctl.client.admin.topics import perm_text

    if config is None:
        return None
    return {
        "writeQueueNums": config.write_queue_nums,
        "readQueueNums": config.read_queue_nums,
        "perm": perm_text(config.perm),
        "order": config.order,
    }


def _warn(session: Session, outcome: Outcome) -> None:
    after = outcome.after
    if after is not None and after.read_queue_nums < after.write_queue_nums:
        session.env.say(
            f"warning: {outcome.broker_name}: messages go to queues {after.read_queue_nums} to "
            f"{after.write_queue_nums - 1}, which no consumer reads"
        )
