"""Which store folders a location means.

broker-a=/data/a;broker-b=/data/b       names and folders
/data/a                                 a store
/data                                   a folder of stores
/data/*/store                           a pattern, on this machine's disks
s3://bucket/stores                      any of these but the pattern, behind a URI
"""

from __future__ import annotations

import glob
from typing import Final

from mqctl.errors import NotFound
from mqctl.store.scan.folder import MARKS, StoreFolder
from mqctl.store.scan.storage import storage

_HINT: Final = "give the folder that storePathRootDir names, or one that holds such folders"


def locate(locations: str) -> list[StoreFolder]:
    """Each under a name of its own. Raises NotFound where there is no store, StoreError where it cannot be told."""
    named: list[StoreFolder] = []
    paths: list[str] = []
    for location in filter(None, (each.strip() for each in locations.split(";"))):
        name, equals, path = location.partition("=")
        if equals and name and "/" not in name:
            if not _is_store(path):
                raise NotFound(f"{path} holds no store", hint=_HINT)
            named.append(StoreFolder(name, path.rstrip("/")))
        else:
            paths += _stores_at(location)
    found = named + [StoreFolder(name, path) for name, path in zip(_names(paths), paths, strict=True)]
    if not found:
        raise NotFound("no store was named", hint=_HINT)
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise NotFound(f"two stores are called {twice}", hint="name them: broker-a=DIR;broker-b=DIR")
    return found


def _stores_at(location: str) -> list[str]:
    if glob.has_magic(location) and "://" not in location:
        paths = sorted(glob.glob(location))  # noqa: PTH207 Path.glob takes no absolute pattern
        found = [path.rstrip("/") for path in paths if _is_store(path)]
    elif _is_store(location):
        found = [location.rstrip("/") or "/"]
    else:
        found = [each.path for each in storage(location).entries(location) if each.is_dir and _is_store(each.path)]
    if not found:
        raise NotFound(f"{location} holds no store", hint=_HINT)
    return found


def _is_store(path: str) -> bool:
    return any(each.name in MARKS for each in storage(path).entries(path))


def _names(paths: list[str]) -> list[str]:
    """The last part of each path, without what they all end with: /data/a/store and /data/b/store are a and b."""
    parts = [[part for part in path.split("/") if part] or ["store"] for path in paths]
    while len(paths) > 1 and all(len(each) > 1 for each in parts) and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    return [each[-1] for each in parts]
