"""`mqctl store repair` and `rebuild`: the two that change a store in place, while no broker uses it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqctl.commands.changing import DryRunOption, YesOption, confirm
from mqctl.commands.common import LocalCommand, Session, session_of
from mqctl.commands.store.checking import FINDINGS
from mqctl.commands.store.shared import CommitlogOption, DirArgument, Progress, app, open_store
from mqctl.errors import NotFound
from mqctl.exit import ExitCode
from mqctl.figures import count_text, size_text
from mqctl.output import Column, Row

if TYPE_CHECKING:
    from mqctl.store.offline.folder import StoreFolder
    from mqctl.store.offline.repair import Action

ACTIONS: Final = [Column("action"), Column("file"), Column("lost")]


def _open_with_log(directory: Path, commitlog: Path | None) -> StoreFolder:
    """Without its log a store has nothing that could be trusted, and all else would look damaged."""
    store = open_store(directory, commitlog)
    if not store.log.files:
        raise NotFound(
            f"{store.log.directory} holds no log file",
            hint="if storePathCommitLog lies elsewhere, name it with --commitlog",
        )
    return store


# -- repair ---------------------------------------------------------------------------------------------


@app.command(cls=LocalCommand)
def repair(
    ctx: typer.Context,
    directory: DirArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    commitlog: CommitlogOption = None,
) -> None:
    """Set damaged pieces of a store aside and put sound ones in their place.

    Nothing is deleted: the pieces are kept in the folder `damaged` of the store. Messages behind damage in the log are
    kept; a broker by itself would end the log there. Prints what is done and what is lost; the exit status is 1 if
    damage is left that cannot be repaired.

    \b
    Examples:
      mqctl store repair ~/store --dry-run
      mqctl store repair ~/store --yes
    """
    from mqctl.remoting import fastjson
    from mqctl.store.offline.changing import locked
    from mqctl.store.offline.repair import plan
    from mqctl.store.offline.repair import repair as run
    from mqctl.store.offline.verify import verify

    session = session_of(ctx)
    progress = Progress(session, "checked")
    store = _open_with_log(directory, commitlog)
    with locked(store.root):
        report = verify(store, fastjson.loads, progress)
        progress.clear()
        actions = plan(report, fastjson.loads, progress)
        if dry_run or not actions:
            session.print_rows(ACTIONS, [_action_row(action) for action in actions])
        if actions and not dry_run:
            confirm(session, f"Repair {directory}: {len(actions)} things to do. Go on?", yes)
            done: list[Row] = []
            report = run(report, fastjson.loads, lambda action: done.append(_action_row(action)), progress)
            progress.clear()
            session.print_rows(ACTIONS, done)
            session.env.say(f"what was replaced is kept in {directory / 'damaged'}")
    if report.damaged and not dry_run:
        _say_rest(session, report.findings)
        raise typer.Exit(ExitCode.REFUSED)
    if not report.damaged:
        session.env.say("no damage")


def _action_row(action: Action) -> dict[str, Any]:
    return {"action": action.what, "file": action.file, "lost": action.lost or None}


def _say_rest(session: Session, findings: list[Any]) -> None:
    session.env.say("damage is left that cannot be repaired:")
    for finding in findings:
        if finding.severity == "damage":
            session.env.say("  " + " ".join(column.text(finding._asdict()) for column in FINDINGS[1:]))


# -- rebuild --------------------------------------------------------------------------------------------


@app.command(cls=LocalCommand)
def rebuild(
    ctx: typer.Context,
    directory: DirArgument,
    queues: Annotated[bool, typer.Option("--queues", help="Only the consume queues.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Only the key index.")] = False,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic's queues.")] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    commitlog: CommitlogOption = None,
) -> None:
    """Make consume queues and index anew from the log.

    The old ones are kept in the folder `damaged`. Topics that were deleted stay so. New files have the sizes of the
    old ones; where there are none, RocketMQ's defaults.

    \b
    Examples:
      mqctl store rebuild ~/store --dry-run
      mqctl store rebuild ~/store --index --yes
    """
    from mqctl.remoting import fastjson
    from mqctl.store.offline.changing import changing, locked
    from mqctl.store.offline.rebuild import known_topics
    from mqctl.store.offline.rebuild import rebuild as run

    session = session_of(ctx)
    progress = Progress(session, "worked through")
    store = _open_with_log(directory, commitlog)
    both = queues == index
    with_index = (both or index) and topic is None
    with locked(store.root):
        exists = known_topics(store, fastjson.loads)

        def wanted(name: str, queue_id: int) -> bool:
            return (both or queues) and topic in (None, name) and exists(name)

        replaced = sum(wanted(queue.topic, queue.queue_id) for queue in store.queues)
        plan = _plan(directory, store, replaced, with_index)
        if dry_run:
            session.env.say(plan)
            return
        confirm(session, f"{plan} Go on?", yes)
        with changing(store):
            built = run(store, wanted, index=with_index, on_progress=progress)
    progress.clear()
    made = f"{built.entries} entries in {len(built.queues)} queues, {built.keys} keys"
    session.env.say(f"{made}; {built.lost} messages are not in the log" if built.lost else made)


def _plan(directory: Path, store: StoreFolder, queues: int, index: bool) -> str:
    """Queues that only the log knows are made as well, and not counted."""
    what = [*([f"{count_text(queues)} queues"] if queues else []), *(["the key index"] if index else [])]
    size = size_text(store.log.end - store.log.begin)
    return f"Rebuild {directory} from {size} of log: {' and '.join(what) or 'what is missing'}."
