"""`mqctl analyze sql`, `export`: the messages themselves, for whoever knows what to do with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mqctl.commands.analyze.asking import TopicsOption, names
from mqctl.commands.analyze.places import absolute
from mqctl.commands.analyze.running import run_job, run_prompt
from mqctl.commands.analyze.shared import ExportCommand, JobCommand, app
from mqctl.commands.common import Session, session_of
from mqctl.errors import ConfigError


@app.command(cls=JobCommand)
def sql(
    ctx: typer.Context,
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Take the query from there.")] = None,
) -> None:
    """Ask in SQL. The tables are messages, queues, index, offsets, topics, groups and delay_offsets.

    Without a query it is read from standard input, and on a terminal there is a prompt. Columns that a query does not
    name are not read; `*` is all of them but the body. At most 10,000 rows are printed, while --out takes all of them.
    Times are in UTC unless --conf spark.sql.session.timeZone=ZONE says otherwise.

    \b
    Examples:
      mqctl analyze sql 'SELECT topic, count(*), sum(size) FROM messages GROUP BY topic' --store ~/store
      mqctl analyze sql --file report.sql --store '/mnt/brokers/*' -o csv --out report
      mqctl analyze sql --store ~/store
    """
    session = session_of(ctx)
    if query is None and file is None and session.env.stdin.isatty():
        run_prompt(ctx)
    else:
        run_job(ctx, "sql", query=_query(session, query, file))


def _query(session: Session, query: str | None, file: Path | None) -> str:
    if query is not None and file is not None:
        raise typer.BadParameter("give one of them", param_hint="QUERY / --file")
    try:
        text = query if query is not None else session.env.stdin.read() if file is None else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error.strerror if isinstance(error, OSError) else 'not text'}") from None
    if not text.strip():
        raise ConfigError("there is no query", hint="mqctl analyze sql 'SELECT ...', --file, or standard input")
    return text


@app.command(cls=ExportCommand)
def export(
    ctx: typer.Context,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="A folder or a URI; what it has is kept.")],
    topics: TopicsOption = None,
) -> None:
    """Write messages to Parquet files, by topic and day; a second run adds what is new.

    \b
    Examples:
      mqctl analyze export --store ~/store --out /data/messages
      mqctl analyze export --store '/mnt/brokers/*' -t orders --out s3a://lake/messages --master yarn
    """
    run_job(ctx, "export", out=absolute(out), topic=names(topics))
