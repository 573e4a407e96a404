"""The store's folder: can a broker write there, is there room, and is it a disk to keep messages on?"""

from __future__ import annotations

import contextlib
import fcntl
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mqctl.commands.doctor.finding import Finding, note, ok, wrong
from mqctl.server.broker.config import BrokerConfig
from mqctl.store.clean import used_ratio

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB

# Gone after a restart of the machine, or of the container.
FLEETING: Final = {"tmpfs": "memory", "ramfs": "memory", "overlay": "a container's own layer"}
# Locks and syncs depend on a server and on how it is mounted.
REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs"})

# What a store consists of, as deep as it tells who wrote it.
PARTS: Final = ("lock", "checkpoint", "commitlog", "commitlog/*", "consumequeue", "config", "config/*.json")

SYNCS: Final = 5
SLOW_SYNC_MS: Final = 50.0


def folder(config: BrokerConfig, *, sizes_known: bool) -> Iterator[Finding]:
    """`sizes_known`: the configuration is that of the broker whose store this is, not a guess."""
    root = config.root.absolute()
    subject = f"store {root}"
    place = _existing(root)
    if not place.is_dir():
        yield wrong(subject, f"{place} is not a folder", "choose another storePathRootDir, or move that file away")
        return
    try:
        sync_ms = _sync_time(place)
    except OSError as error:
        yield wrong(subject, f"{place} cannot be written to: {error.strerror}", f"sudo chown {os.geteuid()} {place}")
        return
    yield ok(subject, "can be written to" if place == root else f"is not there yet; {place} can be written to")
    yield from _kind(subject, _file_system(place))
    yield _room(subject, _existing(Path(config.store_path_commit_log).expanduser().absolute()), config)
    yield _sync(subject, sync_ms)
    if place == root:
        yield from _owners(subject, root)
        yield from _state(subject, root)
        if sizes_known:
            yield from _file_sizes(subject, config)


def _existing(path: Path) -> Path:
    # Path.exists raises where one may not look.
    while not os.access(path, os.F_OK) and path != path.parent:
        path = path.parent
    return path


def _sync_time(place: Path) -> float:
    """Median, in ms. Writing is the only way to learn whether one may: permissions are half of the story."""
    with tempfile.NamedTemporaryFile(prefix=".mqctl-doctor-", dir=place) as file:
        times = []
        for _ in range(SYNCS):
            file.write(bytes(4096))
            file.flush()
            begin = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def _file_system(place: Path) -> str:
    import psutil

    mounted = [each for each in psutil.disk_partitions(all=True) if place.is_relative_to(each.mountpoint)]
    return max(mounted, key=lambda each: len(each.mountpoint)).fstype if mounted else "unknown"


def _kind(subject: str, file_system: str) -> Iterator[Finding]:
    if file_system in FLEETING:
        yield note(
            subject,
            f"is on {file_system}: {FLEETING[file_system]}, gone after a restart",
            "for messages to keep, put storePathRootDir on a disk (in a container: a volume)",
        )
    elif file_system in REMOTE:
        yield note(
            subject,
            f"is on {file_system}, over the network: a sync is as safe and as fast as its server makes it",
            "use a local disk, or make sure of the server: no async export, hard mounts, locks",
        )


def _room(subject: str, place: Path, config: BrokerConfig) -> Finding:
    used = used_ratio(place)
    usage = os.statvfs(place)
    free = usage.f_bavail * usage.f_frsize
    found = f"disk {used:.0%} full, {free / GIB:.1f} GiB free"
    fix = "free some space, take a larger disk, or lower fileReservedTime"
    if used >= config.disk_space_warning_level_ratio:
        return wrong(subject, f"{found}: sends are refused from {config.disk_space_warning_level_ratio:.0%} on", fix)
    if free < config.mapped_file_size_commit_log:
        return wrong(subject, f"{found}: less than the next file of the log may need", fix)
    if usage.f_files and usage.f_favail == 0:
        return wrong(subject, f"{found}, but no inode is free: no file can be made", "remove small files")
    if used * 100 > config.disk_max_used_space_ratio:
        limit = config.disk_max_used_space_ratio
        return note(subject, f"{found}: over {limit} % the oldest messages go before their time", fix)
    return ok(subject, found)


def _sync(subject: str, sync_ms: float) -> Finding:
    found = f"a sync takes {sync_ms:.1f} ms"
    if sync_ms > SLOW_SYNC_MS:
        return note(subject, f"{found}; under SYNC_FLUSH no send is faster", "use a faster disk, or ASYNC_FLUSH")
    return ok(subject, found)


def _stats(paths: Iterable[Path]) -> dict[Path, os.stat_result]:
    """Without files that a broker removed while we looked."""
    found = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            found[path] = path.stat()
    return found


def _owners(subject: str, root: Path) -> Iterator[Finding]:
    """A broker that ran once as root leaves files that the service's user cannot write."""
    parts = _stats(path for pattern in PARTS for path in root.glob(pattern))
    closed = [path for path in parts if not os.access(path, os.R_OK | os.W_OK)]
    strange = [path for path, stat in parts.items() if stat.st_uid != root.stat().st_uid]
    fix = f"stop the broker, then sudo chown -R --reference={root} {root}"
    if closed:
        yield wrong(subject, f"{closed[0]} and {len(closed) - 1} more cannot be written to by user {os.geteuid()}", fix)
    elif strange:
        yield wrong(subject, f"{strange[0]} and {len(strange) - 1} more belong to another user than the folder", fix)


def _state(subject: str, root: Path) -> Iterator[Finding]:
    if _is_locked(root / "lock"):
        yield ok(subject, "a broker is using it")
    elif (root / "abort").exists():
        yield note(
            subject,
            "its last broker did not end in order",
            "nothing is lost, the next start walks the log; look why: the log file, dmesg (out of memory?)",
        )


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _file_sizes(subject: str, config: BrokerConfig) -> Iterator[Finding]:
    wanted = config.mapped_file_size_commit_log
    folder = Path(config.store_path_commit_log).expanduser()
    # An empty one was made by a process that died; it gets its size with the next start.
    sizes = {stat.st_size for stat in _stats(folder.glob("[0-9]*")).values()} - {0, wanted}
    if sizes:
        there = ", ".join(f"{size:,}" for size in sorted(sizes))
        yield wrong(
            subject,
            f"its log has files of {there} bytes, and mappedFileSizeCommitLog is {wanted:,}",
            f"mappedFileSizeCommitLog={min(sizes)}",
        )
