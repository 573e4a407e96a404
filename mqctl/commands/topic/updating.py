"""`mqctl topic update` and `perm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.changing import DryRunOption, YesOption
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.selecting import BrokerOption, ClusterOption, chosen_masters, one_of
from mqctl.commands.topic.losing import confirm_losses
from mqctl.commands.topic.shared import TopicArgument, app, brokers_with, report, without_master
from mqctl.limits import MAX_QUEUES

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.topics import Ordered, Outcome, Wish


@app.command(cls=AdminCommand)
def update(
    ctx: typer.Context,
    topic: TopicArgument,
    write_queues: Annotated[
        int | None, typer.Option("-w", "--write-queues", min=0, max=MAX_QUEUES, metavar="N")
    ] = None,
    read_queues: Annotated[int | None, typer.Option("-r", "--read-queues", min=0, max=MAX_QUEUES, metavar="N")] = None,
    perm: Annotated[str | None, typer.Option("--perm", metavar="PERM", help="rw, r or w; or 6, 4, 2.")] = None,
    order: Annotated[bool | None, typer.Option("--order/--no-order", help="Whether messages are ordered.")] = None,
    unit: Annotated[
        bool | None, typer.Option("--unit/--no-unit", help="Whether it belongs to one unit of several.")
    ] = None,
    unit_sub: Annotated[
        bool | None, typer.Option("--unit-sub/--no-unit-sub", help="Whether groups of units subscribe to it.")
    ] = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create a topic, or change one.

    On all masters of the cluster; -c chooses one where there are several. What is not given stays as it is; a new
    topic gets 8 write queues, 8 read queues and perm rw. To take queues away without losing messages, see
    `mqctl topic resize`; before this command takes queues or rights away it asks.

    \b
    Examples:
      mqctl topic update orders
      mqctl topic update orders -w 16 -r 16
      mqctl topic update orders --perm r -b 127.0.0.1:10911 --yes
    """
    from mqctl.client.admin.topics import Wish
    from mqctl.client.naming import check_topic

    check_topic(topic)
    one_of(cluster, broker)
    wish = Wish(read_queues, write_queues, _perm(perm), order, unit, unit_sub)
    session = session_of(ctx)

    async def plan(admin: Admin) -> list[Outcome]:
        return (await _update(admin, topic, wish, cluster, broker, dry_run=True))[0]

    if not (dry_run or yes):
        confirm_losses(session, plan)
    outcomes, ordered = session.ask(lambda admin: _update(admin, topic, wish, cluster, broker, dry_run))
    report(session, outcomes, None if dry_run else f"update of topic {topic}", ordered=ordered)


@app.command(cls=AdminCommand)
def perm(
    ctx: typer.Context,
    topic: TopicArgument,
    perm: Annotated[str, typer.Argument(metavar="PERM", help="rw, r or w; or 6, 4, 2.")],
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Say whether clients may read and write a topic that exists, on all brokers that have it or on some.

    \b
    Examples:
      mqctl topic perm orders r --yes
      mqctl topic perm orders rw -b broker-a
    """
    from mqctl.client.admin.topics import Wish

    one_of(cluster, broker)
    wish = Wish(perm=_perm(perm))
    session = session_of(ctx)
    if not (dry_run or yes):
        confirm_losses(session, lambda admin: _change_existing(admin, topic, wish, cluster, broker, dry_run=True))
    outcomes = session.ask(lambda admin: _change_existing(admin, topic, wish, cluster, broker, dry_run))
    report(session, outcomes, None if dry_run else f"permission of topic {topic}")


def _perm(text: str | None) -> int | None:
    from mqctl.client.admin.topics import parse_perm

    try:
        return None if text is None else parse_perm(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--perm") from None


async def _update(
    admin: Admin, topic: str, wish: Wish, cluster: str | None, broker: str | None, dry_run: bool
) -> tuple[list[Outcome], Ordered | None]:
    import asyncio

    from mqctl.client.admin.topics import order_of, set_order, update_topic

    targets = (await chosen_masters(admin, cluster, broker)).items()
    ordered = None
    if wish.order is not None and not dry_run:
        plans = await asyncio.gather(*(update_topic(admin, topic, wish, *target, dry_run=True) for target in targets))
        wanted = {plan.broker_name: plan.after for plan in plans if plan.after is not None}
        if wanted:
            everywhere = cluster is None and broker is None
            ordered = await set_order(admin, topic, order_of(wanted, everywhere=everywhere))
    outcomes = await asyncio.gather(*(update_topic(admin, topic, wish, *target, dry_run=dry_run) for target in targets))
    return outcomes, ordered


async def _change_existing(
    admin: Admin, topic: str, wish: Wish, cluster: str | None, broker: str | None, dry_run: bool
) -> list[Outcome]:
    """Never creates the topic where it is not."""
    import asyncio

    from mqctl.client.admin.topics import update_topic

    having = await brokers_with(admin, topic, cluster, broker)
    outcomes = await asyncio.gather(
        *(update_topic(admin, topic, wish, *target, dry_run=dry_run) for target in having.given.items())
    )
    return [*outcomes, *without_master(topic, having)]
