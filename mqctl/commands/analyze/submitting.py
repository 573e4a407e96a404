"""Running a job: spark-submit as a child process, and what it says until it ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mqctl.commands.analyze.cluster import LOCAL, LOOPBACK, check_master, is_local, settings
from mqctl.commands.analyze.ending import ending_in_order, held
from mqctl.commands.analyze.finding import Spark, find_spark
from mqctl.commands.analyze.jobfiles import MAIN, job_files, write_zip
from mqctl.errors import ConfigError, MqError
from spark.request import Request

_ACCEPT_S: Final = 0.2  # how often to look whether the child is still there, until it has called
_END_S: Final = 30.0  # a JVM takes a moment to end
_MAX_CHARS: Final = 300
_MAX_FOLDER_CHARS: Final = 70  # a socket's path has room for 103 on the narrowest system

ZIP: Final = "jobs.zip"
SCRIPT: Final = "mqctl_analyze.py"

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where Spark runs and what it is told, beside the job."""

    master: str = LOCAL
    deploy_mode: str | None = None
    conf: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        """The driver itself runs in the cluster, so it cannot call back."""
        return self.deploy_mode == "cluster"


class JobFailed(MqError):
    """Spark ended without an answer."""


def command_line(spark: Spark, place: Place, files: Path, request: Request) -> list[str]:
    """`files` is the folder that holds the driver's script and the zip."""
    given = dict(_setting(text) for text in place.conf)
    conf = {**settings(place.master), **given}
    mode = ["--deploy-mode", place.deploy_mode] if place.deploy_mode is not None else []
    py_files = ",".join([str(files / ZIP), *place.py_files])
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = [str(spark.submit), "--master", place.master, *mode, "--name", f"mqctl analyze {request.job}"]
    return [*submit, "--py-files", py_files, *options, str(files / SCRIPT), request.encode()]


def surroundings(spark: Spark, place: Place, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of the child. Spark's scripts would choose a home and a Python by themselves. Where executors are
    on other machines, nothing is known of their Pythons: they get what PYSPARK_PYTHON says, or their own `python3`.
    One of that name also plans the scan here, and must be found."""
    found = {**variables, "SPARK_HOME": str(spark.home)}
    if is_local(place.master):
        return {**LOOPBACK, **found, "PYSPARK_PYTHON": spark.python, "PYSPARK_DRIVER_PYTHON": spark.python}
    if place.remote:
        return found
    path = os.pathsep.join([str(Path(spark.python).parent), variables.get("PATH", os.defpath)])
    return {**found, "PYSPARK_DRIVER_PYTHON": spark.python, "PATH": path}


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ConfigError(f"--conf {text}: a setting is written name=value")
    return name, value


@contextlib.contextmanager
def submitted(variables: Mapping[str, str], place: Place, request: Request) -> Iterator[Running]:
    """Starts the job; ends it if it is left before it has ended."""
    check_master(place.master)
    spark = find_spark(variables)
    with (
        ending_in_order(),
        tempfile.TemporaryDirectory(prefix="mqctl-analyze-", dir=_short_folder()) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        files = job_files()
        write_zip(folder / ZIP, files)
        (folder / SCRIPT).write_bytes(files[MAIN])
        listener = None
        if not place.remote:
            request = replace(request, socket=str(folder / "events"))
            listener = stack.enter_context(_listening(request.socket))
        command = command_line(spark, place, folder, request)
        number, log = tempfile.mkstemp(prefix="mqctl-analyze-", suffix=".log")
        with held():
            with os.fdopen(number, "wb") as said:
                process = subprocess.Popen(
                    command,
                    env=surroundings(spark, place, variables),
                    cwd=folder,  # where workers look for modules first, and where Spark leaves what it leaves
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is ours to handle: at a prompt it is no reason for Spark to end
                )
            running = Running(process, listener, Path(log))
            stack.callback(running.end)
        yield running


def _short_folder() -> str:
    """The folder for temporary files, unless it lies so deep that the path of a socket in it would be too long."""
    usual = tempfile.gettempdir()
    return usual if len(usual) < _MAX_FOLDER_CHARS else "/tmp"


def _listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(_ACCEPT_S)
    listener.bind(path)
    listener.listen(1)
    return listener


class Running:
    """A job that has been started. Its log file takes what Spark says; it outlives a failure, and only that."""

    def __init__(self, process: subprocess.Popen[bytes], listener: socket.socket | None, log: Path) -> None:
        self._process = process
        self._listener = listener
        self._log = log
        self._log_kept = False
        self._connection: socket.socket | None = None

    def events(self) -> Iterator[Event]:
        """All until the driver hangs up. Raises JobFailed if it ends without having said how it went."""
        last: Event = {}
        for last in self._said():
            yield last
        status = self._process.wait()
        if last.get("event") not in ("done", "error") and (status != 0 or self._listener is not None):
            raise JobFailed(_last_words(self._log), hint=self.keep_log())

    def ask(self, query: str) -> None:
        """Another question, when the answer to the one before is complete."""
        assert self._connection is not None, "only after the first event"
        with contextlib.suppress(BrokenPipeError):  # then there is no answer, which tells it
            self._connection.sendall(json.dumps({"query": query}).encode() + b"\n")

    def keep_log(self) -> str:
        """For an error that one may want to know more about: where to read it."""
        self._log_kept = True
        return f"what Spark said is in {self._log}"

    def end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if not self._log_kept:
            self._log.unlink(missing_ok=True)

    def _said(self) -> Iterator[Event]:
        self._connection = self._called()
        if self._connection is not None:
            with self._connection.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    yield json.loads(line)

    def _called(self) -> socket.socket | None:
        """The driver's call; None if the process ended without one."""
        while self._listener is not None:
            has_ended = self._process.poll() is not None  # looked at first: it may call and end at once
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(None)
                return connection
            if has_ended:
                break
        return None


def _last_words(log: Path) -> str:
    """The line of Spark's log that most likely says why."""
    said = log.read_text(errors="replace") if log.exists() else ""  # temporary folders are cleaned by others, too
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if "Exception" in line or "Error" in line]
    told = (causes or lines or ["it said nothing"])[0]
    return f"Spark ended without an answer: {told[:_MAX_CHARS]}"
