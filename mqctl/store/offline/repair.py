"""Repairing a store: what `verify` found damaged is set aside and replaced, layer by layer.

Nothing is deleted: the damaged pieces are in the folder `damaged` afterwards. The log comes first; queues and index
follow from it. Each round ends with a check, since a log that can be read on shows what was hidden before.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from mqctl.store.offline.changing import Aside, changing
from mqctl.store.offline.check_config import ParseJson, is_sound
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.logrepair import fit_files, replace_damage
from mqctl.store.offline.logscan import OnProgress, no_progress
from mqctl.store.offline.rebuild import rebuild
from mqctl.store.offline.verify import verify

# Files, records, queues and index: each layer may show something new once.
MAX_ROUNDS: Final = 4


class Action(NamedTuple):
    """One thing to do, and what is lost by it."""

    what: str
    file: str
    lost: str
    run: Callable[[], object]


def plan(report: Report, parse_json: ParseJson, on_progress: OnProgress) -> list[Action]:
    """What there is to do about a report, in this order."""
    return [*_config_actions(report, parse_json), *_log_actions(report), *_derived_actions(report, on_progress)]


def _config_actions(report: Report, parse_json: ParseJson) -> Iterator[Action]:
    store = report.store
    if report.checkpoint:
        yield Action("written anew", "checkpoint", "", lambda: None)  # the end of any change does that
    for path in report.config:
        backup = path.with_name(path.name + ".bak")
        if is_sound(backup, parse_json):
            lost = "what changed since the backup was made"
            yield Action("replaced by its backup", store.name(path), lost, partial(_use_backup, store, path, backup))
        else:
            yield Action("set aside", store.name(path), "all of it", partial(Aside(store.root).move, path))


def _use_backup(store: StoreFolder, path: Path, backup: Path) -> None:
    Aside(store.root).move(path)
    shutil.copyfile(backup, path)


def _log_actions(report: Report) -> Iterator[Action]:
    store, aside = report.store, Aside(report.store.root)
    if report.files:
        names = ", ".join(store.name(path) for path in report.files)
        yield Action("files brought to one size, gaps filled", names, "", partial(fit_files, store, aside))
        return  # where files end decides what is damaged within them
    damages = {damage.start: damage for damage in reversed(report.log)}  # one complaint about each place is enough
    for _, damage in sorted(damages.items()):
        file = store.log.file_at(damage.start)
        name = store.log.directory.name if file is None else store.name(file.path)
        what = f"{damage.end - damage.start} bytes at log offset {damage.start} set aside"
        yield Action(what, name, damage.what, partial(replace_damage, store, damage, report.log_end, aside))


def _derived_actions(report: Report, on_progress: OnProgress) -> Iterator[Action]:
    store = report.store
    if report.files or not (report.queues or report.index):
        return
    names = [f"consumequeue/{topic.decode(errors='replace')}/{queue_id}" for topic, queue_id in sorted(report.queues)]
    wanted = {(topic.decode(errors="replace"), queue_id) for topic, queue_id in report.queues}
    pieces = ", ".join([*names, *(["index"] if report.index else [])])
    run = partial(_rebuild, store, wanted, report.index, on_progress)
    yield Action("rebuilt from the log", pieces, "", run)


def _rebuild(store: StoreFolder, wanted: set[tuple[str, int]], index: bool, on_progress: OnProgress) -> None:
    fresh = store.reopened()
    built = rebuild(fresh, lambda topic, queue_id: (topic, queue_id) in wanted, index=index, on_progress=on_progress)
    for topic, queue_id in wanted - built.queues:
        directory = store.root / "consumequeue" / topic / str(queue_id)
        if directory.exists():  # its entries are wrong and the log has no record of it
            Aside(store.root).move(directory)


def repair(
    report: Report, parse_json: ParseJson, on_action: Callable[[Action], None], on_progress: OnProgress = no_progress
) -> Report:
    """Does what a report asks for, until a check is content or finds nothing that could be done; that check's
    report. The caller holds the lock."""
    store = report.store
    with changing(store):
        for _ in range(MAX_ROUNDS):
            actions = plan(report, parse_json, on_progress)
            if not actions:
                break
            for action in actions:
                action.run()
                on_action(action)
            report = verify(store.reopened(), parse_json, on_progress, clean=report.clean)
    return report
