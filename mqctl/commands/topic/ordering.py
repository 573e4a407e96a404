"""`mqctl topic order`: over how many queues of which brokers a topic is ordered, as name servers keep it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.changing import DryRunOption
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.topic.shared import TopicArgument, app
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin

order = noun("Show and change over how many queues a topic is ordered.")
app.add_typer(order, name="order")

CONF: Final = re.compile(r"[^:;]+:\d+(;[^:;]+:\d+)*;?")
CHANGES: Final = [Column("topic"), Column("before"), Column("after")]


@order.command(cls=AdminCommand)
def get(ctx: typer.Context, topic: TopicArgument) -> None:
    """Show over how many queues of which brokers a topic is ordered.

    \b
    Example:
      mqctl topic order get orders
    """
    from mqctl.client.admin.topics import ORDER_NAMESPACE
    from mqctl.errors import NotFound

    session = session_of(ctx)
    value = session.ask(lambda admin: admin.kv_config(ORDER_NAMESPACE, topic))
    if value is None:
        raise NotFound(f"nothing says that the topic {topic} is ordered")
    session.print_rows([Column("topic"), Column("orderConf", "QUEUES")], [{"topic": topic, "orderConf": value}])


@order.command("put", cls=AdminCommand, hidden=True)  # mqadmin's word
@order.command("set", cls=AdminCommand)
def set_order(
    ctx: typer.Context,
    topic: TopicArgument,
    conf: Annotated[str, typer.Argument(metavar="BROKER:N[;BROKER:N]", help="Queues by broker name.")],
    dry_run: DryRunOption = False,
) -> None:
    """Say over how many queues of which brokers a topic is ordered, at all name servers.

    `mqctl topic update --order` does this for all brokers that have the topic.

    \b
    Example:
      mqctl topic order set orders 'broker-a:8;broker-b:8'
    """
    if not CONF.fullmatch(conf):
        raise typer.BadParameter(f"{conf!r} is not of the form broker-a:8;broker-b:8", param_hint="BROKER:N")
    _put(session_of(ctx), topic, conf, dry_run)


@order.command(cls=AdminCommand)
def delete(ctx: typer.Context, topic: TopicArgument, dry_run: DryRunOption = False) -> None:
    """Forget that a topic is ordered, at all name servers.

    \b
    Example:
      mqctl topic order delete orders
    """
    _put(session_of(ctx), topic, None, dry_run)


def _put(session: Session, topic: str, conf: str | None, dry_run: bool) -> None:
    from mqctl import journal
    from mqctl.client.admin.topics import ORDER_NAMESPACE

    async def change(admin: Admin) -> tuple[str | None, str | None]:
        before = await admin.kv_config(ORDER_NAMESPACE, topic)
        if dry_run:
            return before, conf
        await admin.put_kv_config(ORDER_NAMESPACE, topic, conf)
        return before, await admin.kv_config(ORDER_NAMESPACE, topic)

    before, after = session.ask(change)
    session.print_rows(CHANGES, [{"topic": topic, "before": before, "after": after}])
    if not dry_run:
        entry = journal.change(before, after, namespace=ORDER_NAMESPACE, key=topic)
        journal.record(session.env, session.name_servers, "kv", f"order of topic {topic}", [entry])
