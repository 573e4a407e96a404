"""`mqctl cluster rt`: how long brokers take to store a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.cluster.shared import app
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.watching import WatchOption, watch
from mqctl.exit import ExitCode
from mqctl.figures import count_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.producer import Producer

TIMES: Final = [
    Column("cluster"),
    Column("brokerName", "BROKER"),
    Column("averageMs", "AVERAGE MS", count_text),
    Column("worstMs", "WORST MS", count_text),
    Column("successCount", "STORED", count_text),
    Column("failCount", "FAILED", count_text),
]


@app.command(cls=AdminCommand)
def rt(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, metavar="N", help="Messages per broker.")] = 100,
    size: Annotated[int, typer.Option("--size", min=1, max=4 * 1024 * 1024, metavar="BYTES", help="Of each.")] = 128,
    every: WatchOption = None,
) -> None:
    """Send messages to each broker and say how long it took to store one.

    They go to the topic that each broker keeps under its own name, one after the other. Ends with 5 if some failed.

    \b
    Examples:
      mqctl cluster rt
      mqctl cluster rt -c DefaultCluster --count 1000 --watch 10
    """
    session = session_of(ctx)
    watch(
        session,
        every,
        lambda admin: _measure(session, admin, cluster, count, size),
        lambda rows: _show(session, rows),
    )


def _show(session: Session, rows: list[dict[str, Any]]) -> None:
    session.print_rows(TIMES, rows)
    if any(row["failCount"] for row in rows):
        raise typer.Exit(ExitCode.PARTIAL if any(row["successCount"] for row in rows) else ExitCode.REFUSED)


async def _measure(session: Session, admin: Admin, cluster: str | None, count: int, size: int) -> list[dict[str, Any]]:
    """Brokers one after the other, so that they do not slow each other down through us."""
    from mqctl.client import Producer
    from mqctl.client.clusters import instances

    brokers = [one for one in instances(await admin.cluster_info(), cluster) if one.is_master]
    async with Producer(
        "TOOLS_PRODUCER", session.name_servers, timeout=session.timeout, credentials=session.credentials, retries=0
    ) as producer:
        return [
            {
                "cluster": one.cluster,
                "brokerName": one.broker_name,
                **await _figures(producer, one.broker_name, count, size),
            }
            for one in brokers
        ]


async def _figures(producer: Producer, topic: str, count: int, size: int) -> dict[str, Any]:
    from mqctl.client.admin.timing import time_sends

    timed = [one async for one in time_sends(producer, topic, count, size)]
    stored = [one.milliseconds for one in timed if one.error is None]
    return {
        "averageMs": round(sum(stored) / len(stored), 2) if stored else None,
        "worstMs": round(max(stored), 2) if stored else None,
        "successCount": len(stored),
        "failCount": len(timed) - len(stored),
    }
