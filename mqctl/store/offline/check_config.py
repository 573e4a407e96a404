"""The small files of a store: `config/**/*.json` with their backups, and the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqctl.errors import StoreError
from mqctl.store.checkpoint import LAYOUT, read_checkpoint
from mqctl.store.offline.findings import Report

ParseJson = Callable[[bytes], Any]


def check_config(report: Report, parse_json: ParseJson) -> set[str] | None:
    """Returns the topics that exist, None where no file tells."""
    topics = None
    for path in report.store.config_files():
        content = _check_file(report, path, parse_json)
        if path.name == "topics.json" and isinstance(content, dict):
            topics = set(content.get("topicConfigTable") or ())
    return topics


def _check_file(report: Report, path: Path, parse_json: ParseJson) -> Any:
    """The content a broker would read."""
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
    return backup if content is None else content


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


def check_checkpoint(report: Report, last_timestamp: int) -> None:
    """`last_timestamp` is the latest store time in the log."""
    path = report.store.root / "checkpoint"
    try:
        size = path.stat().st_size
        checkpoint = read_checkpoint(path)
    except FileNotFoundError:
        if last_timestamp and report.store.clean:
            report.note(path, None, "is missing; a broker then walks the whole log after an unclean end")
        return
    except (OSError, StoreError) as error:
        report.damage(path, None, f"cannot be read: {error}")
        return
    if size < LAYOUT.size or min(checkpoint[:3]) < 0:
        report.checkpoint = True
        report.damage(path, 0, "holds no times")
    elif last_timestamp < checkpoint.physic_timestamp:
        what = f"the log once reached {checkpoint.physic_timestamp} and now ends at {last_timestamp}"
        report.note(path, 0, f"{what}: messages were lost, or the clock was set back")
