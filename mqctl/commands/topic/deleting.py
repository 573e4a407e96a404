"""`mqctl topic delete`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.topic.shared import TopicArgument, app, report

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.topics import Outcome


@dataclass(frozen=True, slots=True)
class Deletable:
    """A topic's brokers, by name, and what goes with it."""

    brokers: dict[str, str]
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
    question = f"Delete the topic {topic} on {', '.join(found.brokers)}: {found.messages} messages go, {groups}. Go on?"
    if dry_run:
        session.env.say(question.removesuffix(" Go on?"))
    else:
        confirm(session, question, yes)
    outcomes = session.ask(lambda admin: _delete(admin, topic, found, dry_run))
    report(session, outcomes, topic, None if dry_run else "deletion of")


async def _find(admin: Admin, topic: str, cluster: str | None) -> Deletable:
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.admin.topics import find_route, route_masters
    from mqctl.client.admin.topicstats import consumers_of
    from mqctl.commands.selecting import chosen_masters
    from mqctl.errors import NotFound

    brokers = route_masters(await find_route(admin, topic))
    if cluster is not None:
        asked = await chosen_masters(admin, cluster, None)
        brokers = {name: address for name, address in brokers.items() if name in asked}
    if not brokers:
        raise NotFound(f"the topic {topic} is not on a broker that runs{f' in cluster {cluster}' if cluster else ''}")
    answers = await ask_all(brokers, lambda address: admin.topic_stats(address, topic))
    messages = sum(
        at.max_offset - at.min_offset for table in answers.given.values() for at in table.offset_table.values()
    )
    return Deletable(brokers, messages, sorted((await consumers_of(admin, {topic: brokers}))[topic]))


async def _delete(admin: Admin, topic: str, found: Deletable, dry_run: bool) -> list[Outcome]:
    from mqctl.client.admin.topics import Outcome, delete_topic

    before = {name: await admin.topic_config(address, topic) for name, address in found.brokers.items()}
    after = before
    if not dry_run:
        await delete_topic(admin, topic, found.brokers.values())
        after = {name: await admin.topic_config(address, topic) for name, address in found.brokers.items()}
    return [
        Outcome(name, address, before[name], None if dry_run else after[name])
        for name, address in found.brokers.items()
    ]
