"""What the commands about topics share: naming one, and reporting what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.common import Session, noun
from mqctl.commands.completing import complete_topics
from mqctl.commands.selecting import chosen_masters
from mqctl.commands.telling import tell_missing
from mqctl.exit import ExitCode
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers
    from mqctl.client.admin.topics import Ordered, Outcome
    from mqctl.errors import MqError
    from mqctl.journal import Change
    from mqctl.remoting.bodies import TopicConfig

app = noun("Create, change and describe topics.")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]


def config_text(config: dict[str, Any]) -> str:
    order = " ordered" if config["order"] else ""
    return f"w{config['writeQueueNums']} r{config['readQueueNums']} {config['perm']}{order}"


async def brokers_with(admin: Admin, topic: str, cluster: str | None, broker: str | None = None) -> Answers[str]:
    """The masters that have the topic, all or those chosen, by broker name. Raises NotFound."""
    from mqctl.client.admin.everywhere import Answers
    from mqctl.client.admin.topics import topic_masters
    from mqctl.errors import NotFound

    asked = None if cluster is None and broker is None else await chosen_masters(admin, cluster, broker)
    found = await topic_masters(admin, topic, cluster)
    if asked is None or broker is None:
        return found
    having = {name: address for name, address in found.given.items() if name in asked}
    if not having:
        raise NotFound(f"the topic {topic} is not on {broker}")
    return Answers(having, {})


def without_master(topic: str, brokers: Answers[str]) -> list[Outcome]:
    """Those that have the topic as well and could not be told."""
    from mqctl.client.admin.topics import Outcome

    return [Outcome(topic, name, "", None, None, error) for name, error in brokers.failed.items()]


CHANGED: Final = [
    Column("brokerName", "BROKER"),
    Column("brokerAddr", "ADDRESS"),
    Column("before", show=config_text),
    Column("after", show=config_text),
]


def report(
    session: Session,
    outcomes: Sequence[Outcome],
    what: str | None,
    *,
    ordered: Ordered | None = None,
    elsewhere: Mapping[str, MqError] | None = None,
) -> None:
    """What every broker did, into the journal too if it was done (`what`); the exit status says whether all, some or
    none of them did it. `elsewhere` are failures of others than the brokers."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    missing = {**(elsewhere or {}), **(ordered.failed if ordered is not None else {})}
    columns = [*CHANGED, Column("error")] if failed else CHANGED
    session.print_rows(columns, [_outcome_row(outcome) for outcome in outcomes])
    for outcome in outcomes:
        _warn(session, outcome)
    if what is not None:
        write_down(session, what, outcomes, [] if ordered is None else [ordered])
    if failed and len(failed) == len(outcomes) and ordered is None:
        raise failed[0]
    tell_missing(session, missing)
    if failed or missing:
        raise typer.Exit(ExitCode.PARTIAL)


def write_down(session: Session, what: str, outcomes: Sequence[Outcome], orders: Sequence[Ordered]) -> None:
    """As one entry. Orders come first: brokers take the flag from the name servers when they are told of the topic."""
    import msgspec

    from mqctl import journal

    changes = [
        journal.change(
            msgspec.to_builtins(outcome.before),
            msgspec.to_builtins(outcome.after),
            brokerAddr=outcome.address,
            topic=outcome.topic,
        )
        for outcome in outcomes
        if outcome.error is None
    ]
    journal.record(session.env, session.name_servers, "topic", what, [*map(_order_change, orders), *changes])


def _order_change(ordered: Ordered) -> Change:
    from mqctl import journal
    from mqctl.client.admin.topics import ORDER_NAMESPACE

    return journal.change(ordered.before, ordered.after, kind="kv", namespace=ORDER_NAMESPACE, key=ordered.topic)


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
    if after is not None and after.write_queue_nums == 0:
        session.env.say(f"warning: {outcome.broker_name}: without a write queue nobody can send to it")
    if after is not None and after.read_queue_nums < after.write_queue_nums:
        session.env.say(
            f"warning: {outcome.broker_name}: messages go to queues {after.read_queue_nums} to "
            f"{after.write_queue_nums - 1}, which no consumer reads"
        )
