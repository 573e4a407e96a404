"""`mqctl topic order`: over how many queues of which brokers a topic is ordered, as name servers keep it."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.storing import store
from mqctl.commands.topic.shared import TopicArgument, app
from mqctl.output import Column

order = noun("Show and change over how many queues a topic is ordered.")
app.add_typer(order, name="order")

CONF: Final = re.compile(r"[^:;]+:\d+(;[^:;]+:\d+)*;?")


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
    from mqctl.client.naming import check_topic

    check_topic(topic)
    if not CONF.fullmatch(conf):
        raise typer.BadParameter(f"{conf!r} is not of the form broker-a:8;broker-b:8", param_hint="BROKER:N")
    _put(session_of(ctx), topic, conf, dry_run)


@order.command(cls=AdminCommand)
def delete(ctx: typer.Context, topic: TopicArgument, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """Forget that a topic is ordered, at all name servers.

    \b
    Example:
      mqctl topic order delete orders --yes
    """
    session = session_of(ctx)
    if not dry_run:
        confirm(session, f"Forget at {session.name_servers} that {topic} is ordered. Go on?", yes)
    _put(session, topic, None, dry_run)


def _put(session: Session, topic: str, conf: str | None, dry_run: bool) -> None:
    from mqctl.client.admin.topics import ORDER_NAMESPACE

    what = f"order of topic {topic}"
    store(session, ORDER_NAMESPACE, topic, conf, shown={"topic": topic}, what=what, dry_run=dry_run)
