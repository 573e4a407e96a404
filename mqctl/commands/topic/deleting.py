"""`mqctl topic delete`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.topic.shared import TopicArgument, app, brokers_with, report, without_master

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers
    from mqctl.client.admin.topics import Outcome
    from mqctl.errors import MqError


@dataclass(frozen=True, slots=True)
class Deletable:
    """A topic's brokers, by name, and what goes with it."""

    brokers: Answers[str]
    messages: int
    groups: list[str]


@app.command(cls=AdminCommand)
def delete(
    ctx: typer.Context,
    topic: TopicArgument,
    cluster: ClusterOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete a topic with its messages, from all brokers that have it or those of one cluster.

    A broker that makes topics by itself makes it again as soon as somebody sends to it.

    \b
    Examples:
      mqctl topic delete orders --dry-run
      mqctl topic delete orders -c DefaultCluster --yes
    """
    session = session_of(ctx)
    found = session.ask(lambda admin: _find(admin, topic, cluster))
    groups = (
        f"{len(found.groups)} groups consume it ({', '.join(found.groups)})" if found.groups else "no group reads it"
    )
    where = ", ".join(found.brokers.given)
    question = f"Delete the topic {topic} on {where}: {found.messages} messages go, {groups}. Go on?"
    if dry_run:
        session.env.say(question.removesuffix(" Go on?"))
    else:
        confirm(session, question, yes)
    outcomes, elsewhere = session.ask(lambda admin: _delete(admin, topic, found.brokers.given, dry_run))
    outcomes += without_master(topic, found.brokers)
    report(session, outcomes, None if dry_run else f"deletion of topic {topic}", elsewhere=elsewhere)


async def _find(admin: Admin, topic: str, cluster: str | None) -> Deletable:
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.admin.topicstats import consumers_of

    brokers = await brokers_with(admin, topic, cluster)
    answers = await ask_all(brokers.given, lambda address: admin.topic_stats(address, topic))
    messages = sum(
        at.max_offset - at.min_offset for table in answers.given.values() for at in table.offset_table.values()
    )
    return Deletable(brokers, messages, sorted((await consumers_of(admin, {topic: brokers.given}))[topic]))


async def _delete(
    admin: Admin, topic: str, brokers: dict[str, str], dry_run: bool
) -> tuple[list[Outcome], dict[str, MqError]]:
    """What became of it at each broker, and by address why others than those did not do their part."""
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.admin.topics import Outcome, delete_topic

    before = await ask_all(brokers, lambda address: admin.topic_config(address, topic))
    told = {name: brokers[name] for name in before.given}
    failed = {} if dry_run else await delete_topic(admin, topic, told.values())
    errors = {**before.failed, **{name: failed.pop(address) for name, address in told.items() if address in failed}}
    outcomes = [
        Outcome(topic, name, address, before.given.get(name), None, errors.get(name))
        for name, address in brokers.items()
    ]
    return outcomes, failed
