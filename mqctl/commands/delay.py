"""`mqctl delay`: messages that wait for their delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import YesOption, confirm
from mqctl.commands.common import AdminCommand, Session, noun, session_of
from mqctl.commands.completing import complete_topics
from mqctl.commands.telling import report_missing
from mqctl.commands.topic import ClusterOption
from mqctl.output import Column
from mqctl.times import time_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.pending import Pending
    from mqctl.errors import MqError

app = noun("List delayed messages and take them back.")

MessageIdArgument = Annotated[str, typer.Argument(metavar="MSGID", help="As its sender knows it.")]

PENDING: Final = [
    Column("dueTimestamp", "DUE", time_text),
    Column("delayLevel", "LEVEL"),
    Column("topic"),
    Column("queueId", "QUEUE"),
    Column("msgId"),
    Column("tags"),
    Column("keys"),
    Column("brokerName", "BROKER"),
]


@app.command("ls", cls=AdminCommand)
def list_pending(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", autocompletion=complete_topics)] = None,
    max_count: Annotated[int, typer.Option("--max", min=1, metavar="N", help="Only the next so many.")] = 100,
    cluster: ClusterOption = None,
) -> None:
    """List messages that wait for their delivery, the next one first.

    Those with a delay level, and those with a delivery time of their own, which have no level here.

    \b
    Examples:
      mqctl delay ls
      mqctl delay ls orders --max 10 -o json
    """
    session = session_of(ctx)
    found, failed = session.ask(lambda admin: _find(session, admin, cluster, topic=topic))
    session.print_rows(PENDING, [_row(pending) for pending in found[:max_count]])
    if len(found) > max_count:
        session.env.say(f"{len(found) - max_count} more")
    report_missing(session, failed)


@app.command(cls=AdminCommand)
def show(ctx: typer.Context, msg_id: MessageIdArgument, cluster: ClusterOption = None) -> None:
    """Show a message that waits, with properties and body.

    \b
    Example:
      mqctl delay show 7F00000100002A9F0000000000000001 -o json
    """
    session = session_of(ctx)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        return [await _full_row(admin, pending) for pending in await _named(session, admin, cluster, msg_id)]

    session.print_rows([*PENDING, Column("properties"), Column("body")], session.ask(work))


@app.command(cls=AdminCommand)
def cancel(
    ctx: typer.Context,
    msg_id: MessageIdArgument,
    cluster: ClusterOption = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be taken back.")] = False,
) -> None:
    """Take a message back that waits: it will not be delivered.

    mqctl's brokers can do that with all delayed messages, RocketMQ's from 5.3 on with those that have a delivery time
    of their own (and if recallMessageEnable is set), those of 4.x not at all.

    \b
    Examples:
      mqctl delay cancel 7F00000100002A9F0000000000000001 --dry-run
      mqctl delay cancel 7F00000100002A9F0000000000000001 --yes
    """
    session = session_of(ctx)
    found = session.ask(lambda admin: _named(session, admin, cluster, msg_id))

    async def work(admin: Admin) -> None:
        from mqctl.client.admin.pending import Waiting

        for pending in found:
            await Waiting(admin, pending.broker_name, pending.address).take_back(pending)

    if not dry_run:
        what = "; ".join(f"to {pending.topic}, due {time_text(pending.due_ms)}" for pending in found)
        confirm(session, f"Take back {msg_id} {what}; nobody gets it then. Go on?", yes)
        session.ask(work)
    session.print_rows(PENDING, [_row(pending) for pending in found])


async def _find(
    session: Session, admin: Admin, cluster: str | None, **wanted: str | None
) -> tuple[list[Pending], dict[str, MqError]]:
    """The next one first, and the brokers that do not answer."""
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.admin.pending import Waiting
    from mqctl.client.clusters import masters

    brokers = masters(await admin.cluster_info(), cluster)
    names = {address: name for name, address in brokers.items()}
    now_ms = int(session.env.clock() * 1000)
    answers = await ask_all(brokers, lambda address: Waiting(admin, names[address], address).find(now_ms, **wanted))
    found = [pending for part in answers.given.values() for pending in part]
    return sorted(found, key=lambda pending: pending.due_ms), answers.failed


async def _named(session: Session, admin: Admin, cluster: str | None, msg_id: str) -> list[Pending]:
    """Raises NotFound, or what is wrong with a broker where it may wait."""
    from mqctl.errors import NotFound

    found, failed = await _find(session, admin, cluster, msg_id=msg_id)
    for error in failed.values() if not found else ():
        raise error
    if not found:
        raise NotFound(f"no delayed message {msg_id} waits", hint="see `mqctl delay ls`; it may be delivered already")
    return found


def _row(pending: Pending) -> dict[str, Any]:
    return {
        "dueTimestamp": pending.due_ms,
        "delayLevel": pending.level,
        "topic": pending.topic,
        "queueId": pending.queue_id,
        "msgId": pending.msg_id,
        "tags": pending.tags or None,
        "keys": pending.keys,
        "brokerName": pending.broker_name,
        "storeTimestamp": pending.store_timestamp,
    }


async def _full_row(admin: Admin, pending: Pending) -> dict[str, Any]:
    from mqctl.client.admin.pending import Waiting

    message = await Waiting(admin, pending.broker_name, pending.address).read(pending)
    return {**_row(pending), "properties": message.properties, "body": message.body.decode(errors="backslashreplace")}
