"""`mqctl topic resize`: more queues or fewer, without losing a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.completing import complete_groups
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import report_missing
from mqctl.commands.topic.shared import TopicArgument, app, brokers_with, write_down
from mqctl.exit import ExitCode
from mqctl.limits import MAX_QUEUES
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.resizing import Resize, Waiting
    from mqctl.client.admin.topics import Ordered, Outcome
    from mqctl.errors import MqError
    from mqctl.remoting.bodies import TopicConfig

QUEUES: Final = [Column("brokerName", "BROKER"), Column("writeQueueNums", "WRITE"), Column("readQueueNums", "READ")]


@app.command(cls=AdminCommand)
def resize(
    ctx: typer.Context,
    topic: TopicArgument,
    queues: Annotated[int, typer.Option("--queues", min=1, max=MAX_QUEUES, metavar="N", help="On each broker.")],
    cluster: ClusterOption = None,
    quiet: Annotated[
        float, typer.Option("--quiet", min=0, metavar="SECONDS", help="How long nothing must arrive in queues that go.")
    ] = 35.0,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="GROUP",
            autocompletion=complete_groups,
            help="Do not wait for this group; may be repeated.",
        ),
    ] = None,
    abandon: Annotated[bool, typer.Option("--abandon", help="Leave messages behind that no group reads.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Give a topic more queues or fewer, without losing a message.

    Fewer: writers are kept from the queues that go, then it waits until these are quiet and every group has consumed
    them, then they go. Producers look at routes every 30 seconds, so this takes a little longer than that. Ctrl-C stops
    it at any time; the same command goes on from there. Messages that were sent with a delay before and come due only
    later may still belong to a queue that goes: wait for those first.

    \b
    Examples:
      mqctl topic resize orders --queues 16
      mqctl topic resize orders --queues 4 --dry-run
      mqctl topic resize orders --queues 4 --ignore old-report --yes
    """
    from mqctl.client.admin.resizing import Resize

    session = session_of(ctx)
    brokers = session.ask(lambda admin: brokers_with(admin, topic, cluster))
    missing: dict[str, MqError] = dict(brokers.failed)

    def changed(outcomes: list[Outcome], orders: list[Ordered]) -> None:
        for outcome in outcomes:
            if outcome.after is not None:
                after = outcome.after
                session.env.say(f"{outcome.broker_name}: w{after.write_queue_nums} r{after.read_queue_nums}")
        write_down(session, f"resize of topic {topic}", outcomes, orders)
        for ordered in orders:
            missing.update(ordered.failed)

    def make(admin: Admin) -> Resize:
        return Resize(
            admin, topic, brokers.given, queues, quiet, ignore or (), abandon, changed, lambda now: _tell(session, now)
        )

    before = session.ask(lambda admin: make(admin).configs())
    if not dry_run:
        without = f" Without {', '.join(missing)}." if missing else ""
        confirm(session, f"{_plan(topic, before, queues)}{without} Go on?", yes)
        try:
            session.ask(lambda admin: make(admin).run())
        except KeyboardInterrupt:
            session.env.say(f"stopped; `mqctl topic resize {topic} --queues {queues}` goes on from here")
            raise typer.Exit(ExitCode.REFUSED) from None
        before = session.ask(lambda admin: make(admin).configs())
    else:
        session.env.say(_plan(topic, before, queues))
    session.print_rows(QUEUES, [_row(name, config) for name, config in before.items()])
    report_missing(session, missing)


def _plan(topic: str, configs: dict[str, TopicConfig], queues: int) -> str:
    parts = [f"{name} w{config.write_queue_nums} r{config.read_queue_nums}" for name, config in configs.items()]
    return f"The topic {topic} gets {queues} queues on each broker; now: {', '.join(parts)}."


def _tell(session: Session, now: Waiting) -> None:
    left = ", ".join(f"{group} {behind}" for group, behind in now.tail.behind.items() if behind) or "nobody"
    session.env.say(
        f"{now.tail.held} messages in queues that go, quiet for {now.quiet_seconds:.0f} s; still to consume: {left}"
    )


def _row(name: str, config: TopicConfig) -> dict[str, Any]:
    return {
        "brokerName": name,
        "writeQueueNums": config.write_queue_nums,
        "readQueueNums": config.read_queue_nums,
    }
