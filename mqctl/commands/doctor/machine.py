"""This machine: limits of processes, memory, and what `mqctl analyze` needs."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mqctl.commands.analyze.finding import find_java, installed_spark, missing_modules
from mqctl.commands.doctor.finding import Finding, note, ok, wrong
from mqctl.errors import MqError
from mqctl.store.store import OPEN_QUEUE_FILES

# Beside the queue files the store keeps open: log, index, sockets to listen on, and a first few hundred clients.
LEAST_OPEN_FILES: Final = 2 * OPEN_QUEUE_FILES
# Fewer are too few when some thousand clients come.
FEW_OPEN_FILES: Final = 8192
GOOD_OPEN_FILES: Final = 65_536

# A broker under load takes some 85 MB, a name server 40; the rest is the kernel's cache for what is read again.
LEAST_FREE_MEMORY: Final = 256 * 1024 * 1024

MIB: Final = 1024 * 1024


def machine(variables: Mapping[str, str], largest_file: int) -> Iterator[Finding]:
    """`largest_file`: the size in bytes of the largest file a broker would make."""
    yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield file_size(resource.getrlimit(resource.RLIMIT_FSIZE)[1], largest_file)
    yield from mappings()
    yield memory(_available_memory())
    yield java(variables)
    yield spark(variables)


def open_files(soft: int, hard: int) -> Finding:
    subject = "open files"
    fix = f"raise the hard limit to {GOOD_OPEN_FILES}: LimitNOFILE= in a systemd unit, or ulimit -Hn"
    if hard == resource.RLIM_INFINITY:
        return ok(subject, "no limit")
    found = f"limit {hard} (servers raise the soft one, {soft}, by themselves); each client takes one"
    if hard < LEAST_OPEN_FILES:
        return wrong(subject, f"{found}, queue files up to {OPEN_QUEUE_FILES}", fix)
    return note(subject, found, fix) if hard < FEW_OPEN_FILES else ok(subject, found)


def file_size(limit: int, largest_file: int) -> Finding:
    subject = "size of files"
    if limit == resource.RLIM_INFINITY:
        return ok(subject, "no limit")
    found = f"limit {limit:,} bytes; the largest file of a store has {largest_file:,}"
    return (
        wrong(subject, found, "ulimit -f unlimited, or LimitFSIZE=infinity in the unit")
        if limit < largest_file
        else ok(subject, found)
    )


def mappings() -> Iterator[Finding]:
    """Asked for by everybody who knows Apache's broker, which maps every file of its store."""
    path = Path("/proc/sys/vm/max_map_count")
    if path.exists():
        yield ok("vm.max_map_count", f"{path.read_text().strip()}; does not matter: this broker maps no files")


def _available_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def memory(available: int) -> Finding:
    found = f"{available // MIB:,} MiB available"
    if available < LEAST_FREE_MEMORY:
        return wrong("memory", found, f"free some: a broker under load needs {LEAST_FREE_MEMORY // MIB} MiB")
    return ok("memory", found)


# -- for analyze: looked for as `mqctl analyze` does ----------------------------------------------------


def java(variables: Mapping[str, str]) -> Finding:
    subject = "Java for analyze"
    try:
        found = find_java(variables)
    except MqError as error:
        return note(subject, error.message, f"{error.hint}; nothing else needs it")
    return ok(subject, f"Java {found.version}, {found.program}")


def spark(variables: Mapping[str, str]) -> Finding:
    subject = "Spark for analyze"
    try:
        found = installed_spark(variables)
    except MqError as error:
        return note(subject, error.message, f"{error.hint}; nothing else needs it")
    told = f"Spark {found.version}, {found.home}"
    if missing := " ".join(missing_modules(found, variables)):
        return note(subject, f"{told}; {found.python} has no {missing}", f"{found.python} -m pip install {missing}")
    return ok(subject, told)
