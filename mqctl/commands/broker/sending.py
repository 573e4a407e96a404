"""`mqctl broker send-test`: does this broker take messages, and how fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqctl.commands.broker.running import app
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import BrokerName
from mqctl.errors import MqError
from mqctl.exit import ExitCode
from mqctl.output import Column, Row

if TYPE_CHECKING:
    from mqctl.client.admin.timing import Timed

SENT: Final = [Column("rtMs"), Column("sendResult"), Column("msgId")]


@app.command("send-test", cls=AdminCommand)
def send_test(
    ctx: typer.Context,
    name: BrokerName,
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, metavar="N")] = 50,
    size: Annotated[int, typer.Option("--size", min=1, max=4 * 1024 * 1024, metavar="BYTES")] = 128,
) -> None:
    """Send messages to the topic that a broker keeps under its own name, and say how long each took.

    \b
    Example:
      mqctl broker send-test broker-a --count 10
    """
    import asyncio

    session = session_of(ctx)
    write = session.stream(SENT, _line)
    errors = asyncio.run(_send(session, name, count, size, lambda timed: write(_row(timed))))
    if errors:
        session.env.report(errors[0].message, errors[0].hint)
        raise typer.Exit(ExitCode.PARTIAL if len(errors) < count else ExitCode.REFUSED)


async def _send(session: Session, name: str, count: int, size: int, sent: Callable[[Timed], None]) -> list[MqError]:
    from mqctl.client import Producer
    from mqctl.client.admin import Admin
    from mqctl.client.admin.brokers import find_instances
    from mqctl.client.admin.timing import time_sends

    async with Admin(session.name_servers, timeout=session.timeout, credentials=session.credentials) as admin:
        find_instances(await admin.cluster_info(), None, name)
    failed = []
    async with Producer(
        "TOOLS_PRODUCER", session.name_servers, timeout=session.timeout, credentials=session.credentials, retries=0
    ) as producer:
        async for timed in time_sends(producer, name, count, size):
            sent(timed)
            if timed.error is not None:
                failed.append(timed.error)
    return failed


def _row(timed: Timed) -> dict[str, object]:
    return {"rtMs": round(timed.milliseconds, 2), "sendResult": timed.status, "msgId": timed.msg_id}


def _line(row: Row) -> str:
    return f"{row['rtMs']:.2f} ms  {row['sendResult']}  {row['msgId'] or '-'}"
