"""`mqctl cluster list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.cluster.shared import Seen, app, look
from mqctl.commands.common import AdminCommand, Session, session_of
from mqctl.commands.selecting import ClusterOption
from mqctl.commands.telling import report_missing
from mqctl.commands.watching import WatchOption, watch
from mqctl.figures import count_text, rate_text, share_text
from mqctl.output import Column

if TYPE_CHECKING:
    from mqctl.client.admin.load import Load
    from mqctl.client.clusters import Instance

WHO: Final = [
    Column("cluster"),
    Column("brokerName", "BROKER"),
    Column("brokerId", "ID"),
    Column("brokerAddr", "ADDRESS"),
]
LOAD: Final = [
    *WHO,
    Column("version"),
    Column("inTps", "IN/S", rate_text),
    Column("outTps", "OUT/S", rate_text),
    Column("sendWaiting", "SENDS WAITING", count_text, wide=True),
    Column("sendWaitMs", "FOR MS", count_text, wide=True),
    Column("pullWaiting", "PULLS WAITING", count_text, wide=True),
    Column("pullWaitMs", "FOR MS", count_text, wide=True),
    Column("pageCacheWaitMs", "PAGE CACHE MS", count_text, wide=True),
    Column("hours", "HOURS KEPT"),
    Column("diskRatio", "DISK", share_text),
    Column("active", wide=True),
]
TOTALS: Final = [
    *WHO,
    Column("inYesterday", "IN YESTERDAY", count_text),
    Column("outYesterday", "OUT YESTERDAY", count_text),
    Column("inToday", "IN TODAY", count_text),
    Column("outToday", "OUT TODAY", count_text),
]


@app.command("list", cls=AdminCommand)
def list_brokers(
    ctx: typer.Context,
    cluster: ClusterOption = None,
    totals: Annotated[
        bool, typer.Option("-m", "--totals", help="Messages in and out, yesterday and today, instead of rates.")
    ] = False,
    every: WatchOption = None,
) -> None:
    """List clusters and their brokers, with how busy each is.

    Rates are those of the last 10 seconds. -o wide adds how many requests wait, and for how long.

    \b
    Examples:
      mqctl cluster list
      mqctl cluster list -o wide --watch 5
      mqctl cluster list --totals -o json
    """
    session = session_of(ctx)
    columns = TOTALS if totals else LOAD

    def show(seen: Seen) -> None:
        _show(session, columns, seen)
        report_missing(session, seen.failed)

    watch(session, every, lambda admin: look(session, admin, cluster), show)


def _show(session: Session, columns: list[Column], seen: Seen) -> None:
    """A broker that does not answer is listed all the same: that it is there is known from the name server."""
    rows = [_row(instance, seen.loads.get(instance.address), columns) for instance in seen.instances]
    session.print_rows(columns, rows)


def _row(instance: Instance, load: Load | None, columns: list[Column]) -> dict[str, Any]:
    figures = {
        "version": load and load.version,
        "inTps": load and round(load.in_tps, 2),
        "outTps": load and round(load.out_tps, 2),
        "sendWaiting": load and load.send_waiting,
        "sendWaitMs": load and load.send_wait_ms,
        "pullWaiting": load and load.pull_waiting,
        "pullWaitMs": load and load.pull_wait_ms,
        "pageCacheWaitMs": load and load.page_cache_wait_ms,
        "hours": load and load.hours,
        "diskRatio": load and load.disk_ratio,
        "active": load and load.active,
        "inYesterday": load and load.in_yesterday,
        "outYesterday": load and load.out_yesterday,
        "inToday": load and load.in_today,
        "outToday": load and load.out_today,
    }
    who = {
        "cluster": instance.cluster,
        "brokerName": instance.broker_name,
        "brokerId": instance.broker_id,
        "brokerAddr": instance.address,
    }
    return {**who, **{column.name: figures[column.name] for column in columns if column.name in figures}}
