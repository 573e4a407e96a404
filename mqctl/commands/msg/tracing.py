"""`mqctl msg trace`: what traced clients told about a message."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from mqctl.commands.common import AdminCommand, session_of
from mqctl.commands.completing import complete_topics
from mqctl.commands.msg.finding import IdArgument
from mqctl.commands.msg.shared import app
from mqctl.commands.telling import report_missing
from mqctl.errors import NotFound
from mqctl.figures import count_text
from mqctl.output import Column
from mqctl.times import time_text

TRACES: Final = [
    Column("kind"),
    Column("group"),
    Column("clientHost", "CLIENT"),
    Column("timestamp", "TIME", time_text),
    Column("costMs", "COST (MS)", count_text),
    Column("status"),
    Column("retryTimes", "RETRY"),
    Column("topic", wide=True),
]


@app.command(cls=AdminCommand)
def trace(
    ctx: typer.Context,
    msg_id: Annotated[str, IdArgument],
    trace_topic: Annotated[
        str,
        typer.Option(
            "--trace-topic", metavar="TOPIC", autocompletion=complete_topics, help="Where the clients write to."
        ),
    ] = "RMQ_SYS_TRACE_TOPIC",
) -> None:
    """Show what happened to a message: who sent it, who consumed it, when, how long it took.

    Only clients that have message trace switched on tell. The id is the producer's.

    \b
    Examples:
      mqctl msg trace 7F000001A1B218B4AAC2017F3E2C0000
    """
    from mqctl.client.admin.traces import traces_of

    session = session_of(ctx)
    found, answers = session.ask(lambda admin: traces_of(admin, trace_topic, msg_id))
    rows = [
        {
            "kind": each.kind,
            "group": each.group,
            "clientHost": each.client_host,
            "timestamp": each.timestamp,
            "costMs": each.cost_ms,
            "status": each.status,
            "retryTimes": each.retry_times,
            "topic": each.topic,
        }
        for each in found
    ]
    session.print_rows(TRACES, rows)
    report_missing(session, answers.failed)
    if not found:
        raise NotFound(
            f"there is no trace of {msg_id} in {trace_topic}",
            hint="clients write one only if trace is on (enableMsgTrace in Java), and some seconds later",
        )
