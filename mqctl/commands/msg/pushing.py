"""`mqctl msg push` and `mqctl msg resend`: a stored message once more, to one client or to all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption
from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.completing import complete_groups, complete_topics
from mqctl.commands.msg.finding import IdArgument, find
from mqctl.commands.msg.shared import TopicOption, app
from mqctl.exit import ExitCode
from mqctl.figures import count_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin

PUSHED: Final = [
    Column("clientId"),
    Column("consumeResult", "RESULT"),
    Column("spentTimeMills", "TOOK (MS)", count_text),
    Column("order"),
    Column("remark"),
]


@app.command(cls=AdminCommand)
def push(
    ctx: typer.Context,
    msg_id: Annotated[str, IdArgument],
    group: Annotated[str, typer.Option("-g", "--group", metavar="GROUP", autocompletion=complete_groups)],
    client: Annotated[
        str | None, typer.Option("--client", metavar="ID", help="This client; without it the first of the group.")
    ] = None,
    topic: TopicOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which client would get it.")] = False,
) -> None:
    """Have a running consumer handle a message now, and say how that went.

    The group's offsets do not change, and other messages go on. Exit status 1 when the consumer failed.

    \b
    Examples:
      mqctl msg push 7F000001A1B218B4AAC2017F3E2C0000 -t orders -g order-service
      mqctl msg push 0A00000100002A9F0000000000001F40 -g order-service --client 10.0.0.7@1234
    """
    session = session_of(ctx)
    row = session.ask(lambda admin: _push(admin, msg_id, topic, group, client, dry_run))
    session.print_rows(PUSHED, [row])
    if dry_run:
        session.env.say("nothing was pushed")
    elif row["consumeResult"] not in ("CR_SUCCESS", "CR_COMMIT"):
        raise typer.Exit(ExitCode.REFUSED)


async def _push(
    admin: Admin, msg_id: str, topic: str | None, group: str, client: str | None, dry_run: bool
) -> dict[str, Any]:
    from mqctl.client.admin.consumers import members
    from mqctl.client.admin.messages import brokers_of_topic, consume_directly
    from mqctl.errors import NotFound

    message = await find(admin, msg_id, topic)
    brokers = await brokers_of_topic(admin, message.topic)
    if client is None:
        connection = await members(admin, brokers, group)
        if connection is None or not connection.connection_set:
            raise NotFound(f"no consumer of group {group} is connected", hint="see `mqctl consumer list`")
        client = connection.connection_set[0].client_id
    if dry_run:
        return {**dict.fromkeys(column.name for column in PUSHED), "clientId": client}
    result = await consume_directly(admin, brokers, message, group, client)
    return {
        "clientId": client,
        "consumeResult": result.consume_result,
        "spentTimeMills": result.spent_time_mills,
        "order": result.order,
        "remark": result.remark,
    }


RESENT: Final = [
    Column("from"),
    Column("topic"),
    Column("msgId"),
    Column("brokerName"),
    Column("queueId"),
    Column("queueOffset"),
]


@app.command(cls=AdminCommand)
def resend(
    ctx: typer.Context,
    msg_id: Annotated[str, IdArgument],
    topic: TopicOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", autocompletion=complete_topics, help="Into this topic; its own if not given."
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Send a copy of a message: all groups that read the topic get it.

    Body, keys, tags and properties are kept; the copy has an id of its own.

    \b
    Examples:
      mqctl msg resend 7F000001A1B218B4AAC2017F3E2C0000 -t orders
      mqctl msg resend 0A00000100002A9F0000000000001F40 --to orders-again
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> dict[str, Any]:
        from mqctl.client.admin.copying import Copier, copy_of

        message = await find(admin, msg_id, topic)
        target = to or message.topic
        row: dict[str, Any] = {"from": message.offset_msg_id, "topic": target}
        if dry_run:
            return {**row, "msgId": None, "brokerName": None, "queueId": None, "queueOffset": None}
        async with Copier(session.name_servers, timeout=session.timeout, credentials=session.credentials) as copier:
            result = await copier.send(copy_of(message, target, copier.new_id()))
        return {
            **row,
            "msgId": result.msg_id,
            "brokerName": result.queue.broker_name,
            "queueId": result.queue.queue_id,
            "queueOffset": result.queue_offset,
        }

    session.print_rows(RESENT, [session.ask(work)])
    if dry_run:
        session.env.say("nothing was sent")
