"""This machine: limits of processes, memory, and what `mqctl analyze` needs."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mqctl.commands.doctor.finding import Finding, note, ok, wrong
from mqctl.store.store import OPEN_QUEUE_FILES

# Beside the queue files the store keeps open: log, index, sockets to listen on, and a first few hundred clients.
LEAST_OPEN_FILES: Final = 2 * OPEN_QUEUE_FILES
# Fewer are too few when some thousand clients come.
FEW_OPEN_FILES: Final = 8192
GOOD_OPEN_FILES: Final = 65_536

# A broker under load takes some 85 MB, a name server 40; the rest is the kernel's cache for what is read again.
LEAST_FREE_MEMORY: Final = 256 * 1024 * 1024

LEAST_JAVA: Final = 17  # of Spark 4
JAVA_SECONDS: Final = 10.0
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


# -- for analyze ----------------------------------------------------------------------------------------


def java(variables: Mapping[str, str]) -> Finding:
    subject = "Java for analyze"
    fix = f"install Java {LEAST_JAVA} or later, and set JAVA_HOME if it is not on the PATH; nothing else needs it"
    home = variables.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=variables.get("PATH"))
    if program is None:
        return note(subject, "no java on the PATH, and JAVA_HOME is not set", fix)
    try:
        # It prints to stderr: openjdk version "17.0.2" 2022-01-18
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return note(subject, f"{program} does not run: {error}", fix)
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None:
        return note(subject, f"{program} does not tell its version", fix)
    found = f"Java {version[1]}, {program}"
    return ok(subject, found) if int(version[1]) >= LEAST_JAVA else note(subject, found, fix)


def spark(variables: Mapping[str, str]) -> Finding:
    subject = "Spark for analyze"
    submit = shutil.which("spark-submit", path=variables.get("PATH"))
    if home := variables.get("SPARK_HOME"):
        submit = str(Path(home) / "bin" / "spark-submit")
        if not Path(submit).exists():
            return note(subject, f"SPARK_HOME is {home}, which has no bin/spark-submit", "correct or unset SPARK_HOME")
    if find_spec("pyspark") is not None:
        missing = [name for name in ("pyarrow", "numpy") if find_spec(name) is None]
        if not missing:
            return ok(subject, f"pyspark of {sys.prefix}")
        return note(subject, f"pyspark, but no {', '.join(missing)}", f"pip install {' '.join(missing)}")
    if submit is not None:
        return ok(subject, submit)
    return note(
        subject, "neither pyspark nor spark-submit", "pip install 'mqctl[analyze]', or put a Spark 4 on the PATH"
    )
