"""The small files of a store: `config/**/*.json` with their backups, and the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqctl.store.checkpoint import NO_CHECKPOINT, NO_TIMES, parse_checkpoint
from mqctl.store.offline.findings import Report
from mqctl.store.offline.folder import StoreFolder

ParseJson = Callable[[bytes], Any]


def existing_topics(store: StoreFolder, parse_json: ParseJson) -> set[str] | None:
    """The topics that a broker would find, None where no file tells."""
    path = store.root / "config" / "topics.json"
    for candidate in (path, path.with_name(path.name + ".bak")):
        content, _ = _content(candidate, parse_json)
        if isinstance(content, dict) and isinstance(content.get("topicConfigTable"), dict):
            return set(content["topicConfigTable"])
    return None


def check_config(report: Report, parse_json: ParseJson) -> None:
    for path in report.store.config_files():
        if path.suffix == ".json":
            _check_file(report, path, parse_json)
        elif not (main := path.with_suffix("")).exists():
            _check_file(report, main, parse_json)


def _check_file(report: Report, path: Path, parse_json: ParseJson) -> None:
    content, problem = _content(path, parse_json)
    backup, backup_problem = _content(path.with_name(path.name + ".bak"), parse_json)
    if problem is not None:
        report.config.append(path)
        instead = "" if backup is None else "; its backup is sound"
        report.damage(path, None, f"{problem}{instead}")
    elif content is None and backup is not None:
        report.note(path, None, "is missing or empty; a broker reads the backup instead")
    elif content is None and path.exists():
        report.note(path, None, "is empty")
    if backup_problem is not None:
        report.note(path.with_name(path.name + ".bak"), None, backup_problem)


def _content(path: Path, parse_json: ParseJson) -> tuple[Any, str | None]:
    """(what is in the file, what is wrong with it); both None where there is nothing."""
    try:
        data = path.read_bytes()
        return (parse_json(data) if data else None), None
    except FileNotFoundError:
        return None, None  # or replaced at this moment
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    except ValueError as error:
        return None, f"is not JSON: {error}"


def is_sound(path: Path, parse_json: ParseJson) -> bool:
    """Whether the file is there, and a broker could read it."""
    return _content(path, parse_json)[0] is not None


def check_checkpoint(report: Report) -> None:
    """After the log was read."""
    path = report.store.root / "checkpoint"
    try:
        checkpoint = parse_checkpoint(path.read_bytes())
    except FileNotFoundError:
        if report.last_timestamp and report.clean:
            report.note(path, None, NO_CHECKPOINT)
        return
    except OSError as error:
        report.damage(path, None, f"cannot be read: {error.strerror}")
        return
    if checkpoint is None:
        report.checkpoint = True
        report.damage(path, 0, NO_TIMES)
    elif (what := checkpoint.behind(report.last_timestamp)) is not None:
        report.note(path, 0, what)
