"""`mqctl store verify`: is everything as it should be?"""

from __future__ import annotations

from typing import Final

import typer

from mqctl.commands.common import LocalCommand, session_of
from mqctl.commands.store.shared import CommitlogOption, DirArgument, Progress, app, open_store
from mqctl.exit import ExitCode
from mqctl.output import Column

FINDINGS: Final = [Column("severity"), Column("file"), Column("position"), Column("what")]


@app.command(cls=LocalCommand)
def verify(ctx: typer.Context, directory: DirArgument, commitlog: CommitlogOption = None) -> None:
    """Check a store: every record, every queue entry, the index, the config files.

    Prints what is wrong, and where. `damage` makes the exit status 1; a `note` is something that is normal under the
    circumstances, such as the records of a deleted topic. Beside a running broker the check covers what was there
    when it began.

    \b
    Examples:
      mqctl store verify ~/store
      mqctl store verify ~/store -o json
    """
    from mqctl.remoting import fastjson
    from mqctl.store.offline.verify import verify as run

    session = session_of(ctx)
    progress = Progress(session, "checked")
    report = run(open_store(directory, commitlog), fastjson.loads, progress)
    progress.clear()
    session.print_rows(FINDINGS, [finding._asdict() for finding in report.findings])
    verdict = f"damage in {report.damages} places" if report.damaged else "no damage"
    checked = f"{report.records} records, {report.entries} queue entries, {report.keys} keys"
    session.env.say(f"{checked}: {verdict}")
    if report.damaged:
        session.env.say(f"`mqctl store repair {directory}` sets the damaged pieces aside")
        raise typer.Exit(ExitCode.REFUSED)
