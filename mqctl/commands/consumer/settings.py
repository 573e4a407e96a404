"""`mqctl consumer config`, `update` and `delete`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl import journal
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.consumer.shared import GroupArgument, app, find_groups
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen_masters, one_of
from mqctl.commands.telling import report_missing
from mqctl.figures import count_text
from mqctl.output import Column, cell_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.consumers import GroupConfig
    from mqctl.client.admin.groups import Outcome, Reach
    from mqctl.errors import MqError


@app.command(cls=AdminCommand)
def config(ctx: typer.Context, group: GroupArgument, cluster: ClusterOption = None) -> None:
    """Show the settings of a consumer group on each broker.

    \b
    Example:
      mqctl consumer config order-service
    """
    session = session_of(ctx)
    given, failed = session.ask(lambda admin: _configs(admin, group, cluster))
    fields = {field: None for found in given.values() for field in found if field != "groupName"}
    rows = [{"brokerName": name, **{field: found.get(field) for field in fields}} for name, found in given.items()]
    if len(given) == 1 and session.output is None:
        [row] = rows
        rows = [{"setting": setting, "value": value} for setting, value in row.items()]
        session.print_rows([Column("setting"), Column("value")], rows)
    else:
        session.print_rows([Column("brokerName", "BROKER"), *map(Column, fields)], rows)
    report_missing(session, failed)


async def _configs(admin: Admin, group: str, cluster: str | None) -> tuple[dict[str, GroupConfig], dict[str, MqError]]:
    from mqctl.client.admin.consumers import group_config
    from mqctl.client.admin.everywhere import ask_all

    known = await find_groups(admin, cluster)
    answers = await ask_all(known.find(group), lambda address: group_config(admin, address, group))
    given = {name: found for name, found in answers.given.items() if found is not None}
    return given, {**known.failed, **answers.failed}


# -- update ---------------------------------------------------------------------------------------------

CHANGED: Final = [
    Column("brokerName", "BROKER"),
    Column("brokerAddr", "ADDRESS"),
    Column("changed", show=lambda changed: ", ".join(changed) or "nothing"),
    Column("before", wide=True),
    Column("after", wide=True),
]


@app.command(cls=AdminCommand)
def update(
    ctx: typer.Context,
    group: GroupArgument,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it may consume.")] = None,
    from_min: Annotated[
        bool | None, typer.Option("--from-min/--no-from-min", help="Whether it may start at the oldest message.")
    ] = None,
    broadcast: Annotated[bool | None, typer.Option("--broadcast/--no-broadcast")] = None,
    retry_queues: Annotated[int | None, typer.Option("-q", "--retry-queues", min=0, metavar="N")] = None,
    retry_max: Annotated[
        int | None, typer.Option("-r", "--retry-max", min=-1, metavar="N", help="Tries before a message is dead.")
    ] = None,
    broker_id: Annotated[int | None, typer.Option("--broker-id", min=0, metavar="ID")] = None,
    slow_broker: Annotated[
        int | None, typer.Option("--slow-broker", min=0, metavar="ID", help="Who serves it when it is slow.")
    ] = None,
    notify: Annotated[
        bool | None, typer.Option("--notify/--no-notify", help="Whether clients hear of each other at once.")
    ] = None,
    orderly: Annotated[bool | None, typer.Option("--orderly/--no-orderly", help="RocketMQ 5 only.")] = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create a consumer group, or change one.

    On all masters of the cluster; -c chooses one where there are several. What is not given stays as it is; a new group
    gets what mqadmin gives it.

    \b
    Examples:
      mqctl consumer update order-service --retry-max 5
      mqctl consumer update order-service --disable --dry-run
      mqctl consumer update order-service --disable --yes
    """
    from mqctl.client.admin.groups import update_group
    from mqctl.client.naming import check_group

    check_group(group)
    one_of(cluster, broker)
    given = {
        "consumeEnable": enable,
        "consumeFromMinEnable": from_min,
        "consumeBroadcastEnable": broadcast,
        "retryQueueNums": retry_queues,
        "retryMaxTimes": retry_max,
        "brokerId": broker_id,
        "whichBrokerWhenConsumeSlowly": slow_broker,
        "notifyConsumerIdsChangedEnable": notify,
        "consumeMessageOrderly": orderly,
    }
    wish = {name: value for name, value in given.items() if value is not None}
    session = session_of(ctx)

    async def work(admin: Admin) -> list[Outcome]:
        return await update_group(admin, group, wish, await chosen_masters(admin, cluster, broker), dry_run=dry_run)

    async def find(admin: Admin) -> Reach | None:
        return await _find_stopped(admin, group, await chosen_masters(admin, cluster, broker))

    if enable is False and not dry_run and (found := session.ask(find)) is not None:
        confirm(session, f"Keep the group {group} from consuming on {_reach_text(found)}. Go on?", yes)
    outcomes = session.ask(work)
    _finish(session, "update of" if not dry_run else None, group, outcomes)


async def _find_stopped(admin: Admin, group: str, brokers: dict[str, str]) -> Reach | None:
    """None where the group may not consume as it is, or does not exist."""
    from mqctl.client.admin.groups import find_reach, update_group

    outcomes = await update_group(admin, group, {}, brokers, dry_run=True)
    running = {one.broker_name: one.address for one in outcomes if one.before and one.before.get("consumeEnable")}
    return await find_reach(admin, group, running) if running else None


def _reach_text(found: Reach) -> str:
    return (
        f"{', '.join(found.brokers)}: {count_text(found.clients)} clients are connected, "
        f"{count_text(found.behind)} messages are unread"
    )


def _finish(
    session: Session, what: str | None, group: str, outcomes: list[Outcome], left: Mapping[str, MqError] | None = None
) -> None:
    """Prints and journals, then says whether all, some or none of the brokers did it. `left` failed besides."""
    done = [outcome for outcome in outcomes if outcome.error is None]
    failed = {outcome.broker_name: outcome.error for outcome in outcomes if outcome.error is not None}
    if failed and not done:
        raise next(iter(failed.values()))
    session.print_rows(CHANGED, [_changed_row(outcome) for outcome in done])
    if what is not None:
        changes = [
            journal.change(outcome.before, outcome.after, brokerAddr=outcome.address, group=group) for outcome in done
        ]
        journal.record(session.env, session.name_servers, "group", f"{what} group {group}", changes)
    report_missing(session, {**failed, **(left or {})})


def _changed_row(outcome: Outcome) -> dict[str, Any]:
    before, after = outcome.before or {}, outcome.after or {}
    changed = [
        f"{field} {cell_text(before.get(field))} -> {cell_text(after.get(field))}"
        for field in dict.fromkeys([*before, *after])
        if before.get(field) != after.get(field) and (field != "groupName" or outcome.after is None)
    ]
    return {
        "brokerName": outcome.broker_name,
        "brokerAddr": outcome.address,
        "changed": changed,
        "before": outcome.before,
        "after": outcome.after,
    }


# -- delete ---------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def delete(
    ctx: typer.Context,
    group: GroupArgument,
    offsets: Annotated[bool, typer.Option("--offsets", help="Forget how far it was as well.")] = False,
    topics: Annotated[
        bool, typer.Option("--topics", help="Delete its retry and dead letter topics as well, with their messages.")
    ] = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete a consumer group.

    Its offsets stay unless --offsets is given, its retries and dead letters unless --topics is. A broker that makes
    groups by itself makes it again as soon as a consumer comes.

    \b
    Examples:
      mqctl consumer delete order-service --dry-run
      mqctl consumer delete order-service --offsets --yes
    """
    from mqctl.client.admin.groups import delete_everywhere, find_reach

    session = session_of(ctx)
    one_of(cluster, broker)

    async def find(admin: Admin) -> Reach:
        return await find_reach(admin, group, await chosen_masters(admin, cluster, broker))

    found = session.ask(find)
    question = (
        f"Delete the group {group} on {_reach_text(found)}{', its offsets go' if offsets else ''}"
        f"{', retries and dead letters go' if topics else ''}. Go on?"
    )
    if dry_run:
        session.env.say(question.removesuffix(" Go on?"))
    else:
        confirm(session, question, yes)
    outcomes, left = session.ask(
        lambda admin: delete_everywhere(admin, found, offsets=offsets, topics=topics, dry_run=dry_run)
    )
    _finish(session, "deletion of" if not dry_run else None, group, outcomes, left)
