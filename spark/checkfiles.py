"""The files of a store from outside: sizes that fit, none missing between two others, JSON that can be read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mqctl.remoting.fastjson_reader import FastjsonError, read
from mqctl.store.scan.folder import MAX_CONFIG, DataFile
from mqctl.store.scan.storage import join
from spark.findings import Finding, damage, note

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder


def check_files(folder: StoreFolder) -> Iterator[Finding]:
    yield from _sequence(folder, folder.log_files())
    for queue in folder.queues():
        yield from _sequence(folder, folder.data_files(queue.path))
    yield from _config(folder)


def _sequence(folder: StoreFolder, files: Sequence[DataFile]) -> Iterator[Finding]:
    """A broker wants files of one size, one behind the other."""
    sizes = Counter(file.size for file in files if file.size)
    usual = sizes.most_common(1)[0][0] if sizes else 0
    for number, file in enumerate(files):
        name = file.path.removeprefix(folder.root).lstrip("/")
        if file.size == 0:
            what = "is empty: its process ended before it had its size"
            yield note(folder.name, name, what)
        elif file.size != usual:
            what = f"has {file.size} bytes where the others have {usual}"
            yield damage(folder.name, name, None, what)
        if number and files[number - 1].start + usual < file.start:
            before = files[number - 1].path.rpartition("/")[2]
            yield damage(folder.name, name, None, f"nothing is there between {before} and this file")


def _config(folder: StoreFolder) -> Iterator[Finding]:
    for entry in folder.storage.entries(join(folder.root, "config")):
        if entry.is_dir or not entry.name.endswith((".json", ".json.bak")):
            continue
        problem = _json_problem(folder.storage.read(entry.path, 0, MAX_CONFIG))
        if problem is not None:
            # A broker reads the backup only if the file itself is of no use.
            is_backup, name = entry.name.endswith(".bak"), f"config/{entry.name}"
            yield note(folder.name, name, problem) if is_backup else damage(folder.name, name, None, problem)


def _json_problem(data: bytes) -> str | None:
    if not data:
        return None
    try:
        json.loads(data)
    except ValueError:
        try:
            read(data, MAX_CONFIG)  # fastjson writes numbers that are keys without quotes
        except FastjsonError as error:
            return f"is not JSON: {error}"
    return None
