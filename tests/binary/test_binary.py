"""The executable does what the sources do, for a user without rights, without Python and without variables."""

from __future__ import annotations

import fcntl
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pkgutil import walk_packages
from zipfile import ZipFile

import psutil
import pytest
from PyInstaller.archive.readers import CArchiveReader

import mqctl
from mqctl.client import Compression, ConsumeFrom, Message
from mqctl.client.blocking import Producer, PullConsumer
from mqctl.commands.analyze.jobfiles import job_files
from mqctl.processes import find_servers
from tests.binary.executable import Executable
from tests.cli.terminal import Terminal
from tests.peers.cache import require, tool
from tests.peers.ours import OurBroker, OurNamesrv
from tests.peers.process import free_port

# Whichever test is first waits for the build.
pytestmark = pytest.mark.timeout(600)

MAX_BYTES = 40 * 10**6
UNPACKED_LATE = {"lz4", "numpy", "spark", "uvloop", "yaml", "zstandard"}
LEFT_OUT = {"hypothesis", "pandas", "pyarrow", "pyspark", "pytest", "tkinter"}


def writable(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="module")
def namesrv(executable: Executable) -> Iterator[OurNamesrv]:
    server = OurNamesrv(writable(executable.home / "namesrv"))
    server.program = executable.program()
    with server:
        yield server


@pytest.fixture
def broker(executable: Executable, namesrv: OurNamesrv) -> Iterator[OurBroker]:
    """Of its test's own; it keeps what it needs below TMPDIR while it runs."""
    folder = writable(Path(tempfile.mkdtemp(dir=executable.home)))
    server = OurBroker(folder, namesrv.address, conf={"enablePropertyFilter": True})
    server.program = executable.program({"TMPDIR": str(folder)})
    with server:
        yield server


def test_what_is_in_it(built: Path) -> None:
    assert built.stat().st_size <= MAX_BYTES
    archive = CArchiveReader(str(built))
    assert {Path(name).stem for name in archive.toc if name.startswith("late/")} == UNPACKED_LATE
    modules = set(archive.open_embedded_archive("PYZ.pyz").toc)
    ours = {module.name for module in walk_packages(mqctl.__path__, "mqctl.")}
    assert {name for name in ours - modules if not name.startswith("mqctl.testing")} == set()
    assert {name.partition(".")[0] for name in modules} & LEFT_OUT == set()
    with ZipFile(io.BytesIO(archive.extract("late/spark.zip"))) as jobs:
        assert {name: jobs.read(name) for name in jobs.namelist()} == job_files()


def test_version_says_what_it_was_built_from(executable: Executable) -> None:
    said = executable.ok("version")
    build = rf"(commit [0-9a-f]{{7,40}}(-dirty)?, )?built \d{{4}}-\d\d-\d\d, Python {platform.python_version()}"
    assert re.fullmatch(rf"mqctl {mqctl.__version__} \({build}\)\n", said), said


def test_the_tour(executable: Executable, namesrv: OurNamesrv, broker: OurBroker) -> None:
    def ask(*args: str) -> str:
        return executable.ok(args[0], args[1], "-n", namesrv.address, *args[2:])

    ask("topic", "update", "orders", "-w", "2", "-r", "2")
    assert ask("msg", "send", "orders", "hello", "--count", "3").count("SEND_OK") == 3
    assert ask("msg", "tail", "orders", "--from", "earliest", "--max", "3").count("hello") == 3
    with PullConsumer("kitchen", "orders", namesrv=namesrv.address, start=ConsumeFrom.FIRST) as consumer:
        eaten = 0
        while eaten < 3:
            eaten += len(consumer.poll(timeout=5))
    progress = ask("consumer", "progress", "kitchen", "-o", "csv").splitlines()
    assert len(progress) == 3, "two queues and a head"
    assert broker.address in ask("cluster", "list")
    assert "brokerName: broker-a" in ask("topic", "route", "orders", "-o", "yaml")
    assert executable.ok("shutdown", "broker", "--port", str(broker.port)).endswith("stopped\n")
    assert broker.stop() == 0, "it has ended already, and well"
    verified = executable("store", "verify", str(broker.store_dir))
    assert verified.status == 0
    assert "no damage" in verified.err


def test_libraries_that_come_when_they_are_needed(
    executable: Executable, namesrv: OurNamesrv, broker: OurBroker
) -> None:
    """LZ4 and Zstandard in `msg tail`, the filter's grammar in the broker, numpy in its index; and by then somebody has
    put another version in the place of the executable that the broker was started from."""
    installed = Executable(broker.workdir / "mqctl", executable.home)
    shutil.copy2(executable.path, installed.path)
    broker.stop()
    broker.program = installed.program()
    broker.start()
    later = broker.workdir / "later"
    later.write_text("a later version")
    later.replace(installed.path)
    for number, compression in enumerate((Compression.LZ4, Compression.ZSTD)):
        with Producer("p", namesrv=namesrv.address, compress_over=100, compression=compression) as producer:
            body = compression.name.encode() * 100
            producer.send(Message("packed", body, keys=["k"], properties={"number": str(number)}))
    args = ("packed", "-n", namesrv.address)
    tailed = executable.ok("msg", "tail", *args, "--from", "earliest", "--max", "1", "--sql", "number > 0")
    assert "ZSTDZSTD" in tailed
    found = executable.ok("msg", "query", *args, "--key", "k", "-o", "csv")
    assert len(found.splitlines()) == 3


def test_it_clears_up_behind_itself(broker: OurBroker) -> None:
    [unpacked] = broker.workdir.glob("_MEI*")
    assert is_locked(unpacked), "else systemd-tmpfiles would clear up before it"
    assert broker.stop() == 0, "who gets the signal is the process that unpacked it"
    assert not (broker.store_dir / "abort").exists()
    assert not unpacked.exists()


def is_locked(folder: Path) -> bool:
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(number)
    return False


def test_shutdown_sees_one_server_in_its_two_processes(built: Path, namesrv: OurNamesrv, tmp_path: Path) -> None:
    broker = OurBroker(tmp_path, namesrv.address)
    broker.program = [str(built)]
    with broker:
        [server] = psutil.Process(broker.pid).children()
        assert {process.pid for process in find_servers("broker", None)} & {broker.pid, server.pid} == {server.pid}


def test_ctrl_c(executable: Executable) -> None:
    """The terminal sends it to both processes, and the first passes it on to the second."""
    args = ["--namesrv-port", str(free_port()), "--broker-port", str(free_port(-2, 1))]
    store = str(executable.home / "standalone")
    terminal = Terminal("standalone", "--store", store, *args, home=executable.home, program=executable.program())
    try:
        terminal.wait_for("Ctrl-C")
        terminal.press(b"\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text()
    finally:
        terminal.close()


@pytest.mark.interop
@pytest.mark.long
def test_analyze_takes_the_python_of_the_path(built: Path, broker: OurBroker) -> None:
    """Spark is none of the executable's business, but its jobs are: they travel in it as sources."""
    require(tool, "java")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    args = ["analyze", "sizes", "--store", str(broker.store_dir), "--master", "local[1]", "-o", "csv"]
    done = subprocess.run([built, *args], env={"PATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert {line.split(",")[0] for line in done.stdout.splitlines()} >= {"topic"}
