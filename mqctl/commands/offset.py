"""`mqctl offset`: where consumer groups are, and moving them elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl import journal
from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.completing import complete_groups, complete_topics
from mqctl.commands.consumer.shared import GroupArgument, find_groups
from mqctl.commands.telling import report_missing
from mqctl.output import Column
from mqctl.times import parse_time

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.repositioning import Move, Plan

app = noun("Show and move the offsets of consumer groups.")

TopicOption = Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", autocompletion=complete_topics)]
ForceOption = Annotated[bool, typer.Option("--force", help="Also if its consumers run, who may overwrite it.")]

POSITION: Final = [
    Column("topic"),
    Column("brokerName", "BROKER"),
    Column("queueId", "QUEUE"),
    Column("minOffset", "MIN"),
    Column("maxOffset", "MAX"),
]
OFFSETS: Final = [*POSITION, Column("offset")]
MOVES: Final = [*POSITION, Column("before"), Column("after")]


@app.command(cls=AdminCommand)
def get(ctx: typer.Context, group: GroupArgument, topic: TopicOption) -> None:
    """Show where a consumer group is in each queue of a topic.

    \b
    Example:
      mqctl offset get order-service -t orders
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> Plan:
        from mqctl.client.admin.repositioning import current, topic_queues

        await _check_group(admin, group)
        return await current(admin, group, await topic_queues(admin, topic))

    plan = session.ask(work)
    session.print_rows(OFFSETS, [{**_row(move), "offset": move.before} for move in plan.moves])
    report_missing(session, plan.left_out)


# -- moving ---------------------------------------------------------------------------------------------


@app.command(cls=AdminCommand)
def reset(
    ctx: typer.Context,
    group: GroupArgument,
    topic: TopicOption,
    to: Annotated[
        str, typer.Option("--to", metavar="TIME", help="earliest, latest, -2h, 2024-05-31T12:00:00, milliseconds.")
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Move a consumer group to the messages stored at a time or later, in all queues of a topic.

    Consumers that run are told, and go on from there after up to 10 seconds.

    \b
    Examples:
      mqctl offset reset order-service -t orders --to -2h --dry-run
      mqctl offset reset order-service -t orders --to earliest --yes
    """
    session = session_of(ctx)
    _reset(session, group, topic, _timestamp(session, to), yes, dry_run)


@app.command(cls=AdminCommand)
def skip(
    ctx: typer.Context,
    group: GroupArgument,
    topic: TopicOption,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Let a consumer group skip all that it has not consumed yet of a topic.

    \b
    Example:
      mqctl offset skip order-service -t orders
    """
    from mqctl.client.admin.repositioning import LATEST

    _reset(session_of(ctx), group, topic, LATEST, yes, dry_run)


def _timestamp(session: Session, text: str) -> int:
    from mqctl.client.admin.repositioning import EARLIEST, LATEST

    ends = {"earliest": EARLIEST, "latest": LATEST, "now": LATEST, "-1": LATEST}  # the last two are mqadmin's
    try:
        return ends[text] if text in ends else parse_time(text, session.env.clock())
    except ValueError as error:
        raise typer.BadParameter(f"{error}, earliest or latest", param_hint="--to") from None


def _reset(session: Session, group: str, topic: str, timestamp_ms: int, yes: bool, dry_run: bool) -> None:
    from mqctl.client.admin.repositioning import plan_by_time, reset_running, write_offsets

    async def make(admin: Admin) -> Plan:
        await _check_group(admin, group)
        return await plan_by_time(admin, group, topic, timestamp_ms)

    async def carry_out(admin: Admin, plan: Plan) -> None:
        if plan.running:
            await reset_running(admin, plan, timestamp_ms)
        else:
            await write_offsets(admin, group, plan.moves)

    _change(session, f"reset of {group} on {topic}", make, carry_out, yes=yes, dry_run=dry_run)


@app.command("set", cls=AdminCommand)
def set_offset(
    ctx: typer.Context,
    group: GroupArgument,
    topic: TopicOption,
    queue: Annotated[str, typer.Option("-q", "--queue", metavar="[BROKER:]QUEUE")],
    to: Annotated[int | None, typer.Option("--to", min=0, metavar="OFFSET")] = None,
    time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="Instead: to the messages stored then or later.")
    ] = None,
    broker: Annotated[str | None, typer.Option("--broker", hidden=True)] = None,  # mqadmin names it apart
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Move a consumer group to an offset in one queue. Its consumers must not run: they would overwrite it.

    \b
    Examples:
      mqctl offset set order-service -t orders -q broker-a:3 --to 1200 --yes
      mqctl offset set order-service -t orders -q 3 --to-time -2h --dry-run
    """
    session = session_of(ctx)
    broker_name, _, number = queue.rpartition(":")
    if not number.isdecimal():
        raise typer.BadParameter(f"{queue!r} is not a queue: write 3 or broker-a:3", param_hint="--queue")
    if (to is None) == (time is None):
        raise typer.BadParameter("give an offset, or --to-time", param_hint="--to")
    aim: dict[str, Any] = {"offset": to} if time is None else {"timestamp_ms": _timestamp(session, time)}

    async def make(admin: Admin) -> Plan:
        from mqctl.client.admin.repositioning import plan_queue

        await _check_group(admin, group)
        return await plan_queue(admin, group, topic, broker_name or broker, int(number), **aim)

    _write(session, f"set offset of {group} on {topic}", make, force, yes, dry_run)


@app.command(cls=AdminCommand)
def clone(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", autocompletion=complete_groups, help="The group to copy from.")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", autocompletion=complete_groups, help="The group to copy to; it may be new."),
    ],
    topic: Annotated[
        str | None,
        typer.Option("-t", "--topic", metavar="TOPIC", autocompletion=complete_topics, help="Only this topic."),
    ] = None,
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Move a consumer group to where another one is, in all topics that the other reads.

    \b
    Example:
      mqctl offset clone order-service order-service-v2 --dry-run
    """

    from mqctl.client.naming import check_group

    check_group(target)

    async def make(admin: Admin) -> Plan:
        from mqctl.client.admin.repositioning import group_masters, plan_clone

        known = await find_groups(admin, None)
        masters = await group_masters(admin, known.find(source))
        plan = await plan_clone(admin, source, target, masters.given, topic)
        plan.left_out |= {**known.failed, **masters.failed}
        return plan

    _write(session_of(ctx), f"clone of {source} to {target}", make, force, yes, dry_run)


# -- common ---------------------------------------------------------------------------------------------


async def _check_group(admin: Admin, group: str) -> None:
    """Offsets for a mistyped name would be stored like any others."""
    (await find_groups(admin, None)).find(group)


def _write(
    session: Session, summary: str, make: Callable[[Admin], Awaitable[Plan]], force: bool, yes: bool, dry_run: bool
) -> None:
    from mqctl.client.admin.repositioning import write_offsets
    from mqctl.errors import MqError

    async def make_checked(admin: Admin) -> Plan:
        plan = await make(admin)
        if plan.running and not (force or dry_run):
            raise MqError(
                f"{plan.running} consumers of {plan.group} run and would write their own offsets over this",
                hint="stop them first; or see `mqctl offset reset`, which tells them; or --force",
            )
        return plan

    async def carry_out(admin: Admin, plan: Plan) -> None:
        await write_offsets(admin, plan.group, plan.moves)

    _change(session, summary, make_checked, carry_out, yes=yes, dry_run=dry_run)


def _change(
    session: Session,
    summary: str,
    make: Callable[[Admin], Awaitable[Plan]],
    carry_out: Callable[[Admin, Plan], Awaitable[None]],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Plans, asks, does, prints what was done, and writes it into the journal."""
    plan = session.ask(make)
    if not dry_run:
        running = f" {plan.running} consumers run." if plan.running else ""
        without = f" Without {', '.join(plan.left_out)}." if plan.left_out else ""
        confirm(session, f"{summary}: {_effect(plan)}.{running}{without} Go on?", yes)
        session.ask(lambda admin: carry_out(admin, plan))
    failed = {move.queue.broker_name: move.error for move in plan.moves if move.error is not None}
    if failed and not plan.possible:
        raise next(iter(failed.values()))
    columns = [*MOVES, Column("error")] if failed else MOVES
    session.print_rows(columns, [_row(move) for move in plan.moves])
    session.env.say(_effect(plan))
    if not dry_run:
        changes = [_journal_change(plan.group, move) for move in plan.possible]
        journal.record(session.env, session.name_servers, "offset", summary, changes)
    report_missing(session, {**plan.left_out, **failed})


def _effect(plan: Plan) -> str:
    return f"{plan.again} messages are consumed again, {plan.skipped} are skipped"


def _journal_change(group: str, move: Move) -> journal.Change:
    return journal.change(
        move.before,
        move.after,
        brokerAddr=move.address,
        brokerName=move.queue.broker_name,
        group=group,
        topic=move.queue.topic,
        queueId=move.queue.queue_id,
    )


def _row(move: Move) -> dict[str, Any]:
    return {
        "topic": move.queue.topic,
        "brokerName": move.queue.broker_name,
        "queueId": move.queue.queue_id,
        "minOffset": move.min_offset,
        "maxOffset": move.max_offset,
        "before": move.before,
        "after": move.after,
        "error": move.error.message if move.error is not None else None,
    }
