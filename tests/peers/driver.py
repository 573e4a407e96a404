"""Real clients (Java 4.9.7, Java 5.5.0, Go) as child processes, driven by JSON lines.

One request per line, ``{"id": n, "op": "...", ...}``; one reply per request, ``{"id": n, "ok": true, ...}``
or ``{"id": n, "ok": false, "error": text, "code": response code or null}``; a consumed message arrives as an
event, ``{"event": "message", "consumer": name, ...}``. Bodies travel as base64. What a client cannot do is
answered with an error that begins with "unsupported". Optional fields stand in brackets:

    ping, reset (stop all clients), exit
    producer_start  name group namesrv [instanceName retryTimes compressThreshold createTopicQueueNums
                    sendTimeoutMs maxMessageSize trace transactional] -> instanceName [clientId]
                    A transactional one sends every (synchronous) message in a transaction, which ends as the
                    message's property "outcome" says: commit (default), rollback, unknown. Asked by the broker,
                    a producer says what the property "checked" says; the questions are events under its name.
                    With a property "ifExecuted" it says rollback unless it was itself told that the half is
                    stored (Java).
    send            name topic body [mode=sync|async|oneway tags keys flag properties delayLevel queueId
                    brokerName] -> sendStatus msgId offsetMsgId brokerName queueId queueOffset
                    [recallHandle] (oneway: msgId alone)
    send_many       name count template={as send} [start=0 concurrency=1 mode] ->
                    results: [[index, msgId, offsetMsgId, brokerName, queueId, queueOffset]]
                    statuses: {status: n}  errors: [[index, code, text]].
                    The index is appended to the body, "{i}" in texts stands for it, and a list in the
                    template holds alternatives taken in turn.
    send_batch      name messages=[as send] [queueId brokerName] -> as send
    recall          name topic handle -> msgId (Java 5.x)
    request         name topic body [as send; timeoutMs=10000] -> message (the reply)
    producer_stop   name
    consumer_start  name group namesrv topic [expression=* expressionType=TAG|SQL92, or for several topics
                    subscriptions=[{topic expression expressionType}]; model=clustering|broadcasting
                    from=first|last|timestamp timestamp (ms) orderly instanceName clientRebalance
                    consumeThreads pullBatchSize maxReconsumeTimes listenerSleepMs trace
                    replyBy=name of a producer (replies "re: " and the body to each message it accepts)
                    failFirst (turn down so many deliveries of each message; -1 all) and then
                    retryDelayLevel (concurrent) or suspendMs (orderly)] -> instanceName [clientId]
    consumer_stop, consumer_assignment   name [-> queues]
    lite_pull_start name group namesrv topic [as consumer_start; autoCommit=true]
    lite_pull_poll  name [timeoutMs] -> messages
    lite_pull_commit, lite_pull_assignment, lite_pull_stop   name [-> queues]
    queues          namesrv topic [kind=write|read] -> queues: [{topic brokerName queueId}]
    max_offset, min_offset, search_offset (timestamp)   namesrv topic queueId [brokerName] -> offset
    view_message    namesrv topic msgId -> message or null
    query_key       namesrv topic key [maxNum begin end] -> messages
    create_topic    namesrv broker topic [readQueueNums writeQueueNums perm order]
    allocate        strategy queues=[{topic brokerName queueId}] clients=[id] [virtualNodes rooms="a,b"] ->
                    parts: for each client the indices of its queues (Java)
    mqadmin         args=[word] -> stdout stderr (Java): a command of Apache's tool, without the three seconds that a
                    process of its own takes to end. Wrong options end the driver.

In Java, ``java={"property": value}`` of a ``*_start`` or a ``send`` calls the setter of that name.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from .cache import entry, run_build, tool
from .jars import classpath
from .jvm import QUICK_START, java, write_home

SOURCES: Final = Path(__file__).resolve().parent
CALL_TIMEOUT_S: Final = 30.0
# Clients ask for routes and send heartbeats every 30 s; one that just missed a change comes round within this.
DELIVERY_TIMEOUT_S: Final = 60.0
EXIT_TIMEOUT_S: Final = 15.0
LOG_TAIL_CHARS: Final = 4000


class DriverError(Exception):
    """The client answered with an error; ``code`` is the broker's response code where one was the cause."""

    def __init__(self, op: str, error: str, code: int | None = None) -> None:
        super().__init__(f"{op}: {error}")
        self.op = op
        self.error = error
        self.code = code


class Unsupported(DriverError):
    """This client has no such operation or option."""


class DriverDied(DriverError):
    """The client process is gone, or was when it was asked."""


class NotDelivered(AssertionError):
    """The expected messages did not arrive in time; the text says what did."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as a consumer saw it."""

    topic: str
    msg_id: str
    offset_msg_id: str | None
    broker_name: str | None
    queue_id: int
    queue_offset: int
    tags: str | None
    keys: str | None
    body: bytes
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    reconsume_times: int
    born_timestamp: int
    store_timestamp: int
    received_at: int
    accepted: bool

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Read an event, or one of the messages in a reply."""
        return cls(
            topic=fields["topic"],
            msg_id=fields["msgId"],
            offset_msg_id=fields["offsetMsgId"],
            broker_name=fields["brokerName"],
            queue_id=fields["queueId"],
            queue_offset=fields["queueOffset"],
            tags=fields["tags"],
            keys=fields["keys"],
            body=base64.b64decode(fields["body"]),
            properties=fields["properties"],
            flag=fields["flag"],
            sys_flag=fields["sysFlag"],
            reconsume_times=fields["reconsumeTimes"],
            born_timestamp=fields["bornTimestamp"],
            store_timestamp=fields["storeTimestamp"],
            received_at=fields["receivedAt"],
            accepted=fields.get("accepted", True),
        )


class ClientDriver:
    """One client process. Any thread may call any method; a call blocks only its caller."""

    def __init__(self, name: str, workdir: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.workdir = workdir
        self._ids = itertools.count(1)
        self._writing = threading.Lock()  # lines of two callers must not mix
        self._changed = threading.Condition()  # guards all below
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self._messages: dict[str, list[Message]] = {}
        self._dead = False
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=workdir,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then closes us
                text=True,
                encoding="utf-8",
            )
        self._reader = threading.Thread(target=self._read, name=f"{name}-reader", daemon=True)
        self._reader.start()
        try:
            self.call("ping")
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process can still be called."""
        return not self._dead

    def call(self, op: str, *, timeout: float = CALL_TIMEOUT_S, **fields: Any) -> dict[str, Any]:
        """Run one operation and return its reply; bytes among the fields are sent as base64.

        Raises Unsupported, DriverDied, DriverError for any other failure, TimeoutError after ``timeout`` s.
        """
        future: Future[dict[str, Any]] = Future()
        with self._changed:
            request_id = next(self._ids)
            self._pending[request_id] = future
        self._write(op, {"id": request_id, "op": op, **fields})
        try:
            reply = future.result(timeout)
        except TimeoutError:
            self._drop(request_id)
            raise TimeoutError(f"{self}: no answer to {op} within {timeout:.0f} s\n{self.log_text()}") from None
        if reply["ok"]:
            return reply
        kind = Unsupported if reply["error"].startswith("unsupported") else DriverError
        raise kind(op, reply["error"], reply["code"])

    def messages(self, consumer: str) -> list[Message]:
        """Return what the consumer has received so far, redeliveries included, in order of arrival."""
        with self._changed:
            return list(self._messages.get(consumer, ()))

    def wait_messages(
        self,
        consumer: str,
        count: int = 0,
        predicate: Callable[[list[Message]], bool] | None = None,
        timeout: float = DELIVERY_TIMEOUT_S,
    ) -> list[Message]:
        """Wait until the consumer has ``count`` messages and ``predicate`` holds; return all it has."""

        def satisfied() -> bool:
            got = self._messages.get(consumer, [])
            return len(got) >= count and (predicate is None or predicate(list(got)))

        with self._changed:
            self._changed.wait_for(lambda: self._dead or satisfied(), timeout)
            got = list(self._messages.get(consumer, ()))
            if satisfied():
                return got
        if self._dead:
            raise DriverDied("wait_messages", f"{self} died with {len(got)} messages\n{self.log_text()}")
        last = [(each.body[:40], each.queue_id, each.queue_offset) for each in got[-20:]]
        raise NotDelivered(f"{consumer} got {len(got)} of {count} in {timeout:.0f} s, the last: {last}")

    def reset(self) -> None:
        """Stop every client in the process and forget what they received, for the next test."""
        self.call("reset")
        with self._changed:
            self._messages.clear()

    def close(self) -> None:
        """Stop all clients gracefully and end the process; harmless when it is dead already."""
        if self.alive:
            try:
                self.call("exit", timeout=EXIT_TIMEOUT_S)
            except (DriverDied, TimeoutError):
                self._process.kill()
        self._reap()
        shutil.rmtree(self.workdir, ignore_errors=True)

    def kill(self) -> None:
        """End the process at once (SIGKILL), as a crash would; what it had received stays readable."""
        self._process.kill()
        self._reap()

    def log_text(self) -> str:
        """Return the end of what the client wrote to stderr."""
        if not self._log.exists():
            return "(no log)"
        return f"--- end of {self._log}\n{self._log.read_text(errors='replace')[-LOG_TAIL_CHARS:]}"

    @property
    def _log(self) -> Path:
        return self.workdir / "driver.log"

    def _write(self, op: str, request: Mapping[str, Any]) -> None:
        line = json.dumps(request, default=_as_base64) + "\n"
        with self._writing:
            try:
                if self._dead:
                    raise BrokenPipeError
                stdin = _pipe(self._process.stdin)
                stdin.write(line)
                stdin.flush()
            except (OSError, ValueError):  # ValueError: the pipe was closed by kill()
                self._drop(request["id"])
                raise DriverDied(op, f"{self} is not running\n{self.log_text()}") from None

    def _drop(self, request_id: int) -> None:
        with self._changed:
            self._pending.pop(request_id, None)

    def _read(self) -> None:
        """Sort lines into replies and events until the process closes its end."""
        for line in _pipe(self._process.stdout):
            fields = json.loads(line)
            with self._changed:
                if "event" in fields:
                    self._messages.setdefault(fields["consumer"], []).append(Message.from_fields(fields))
                    self._changed.notify_all()
                elif (future := self._pending.pop(fields["id"], None)) is not None:
                    future.set_result(fields)
        self._bury()

    def _bury(self) -> None:
        with self._changed:
            self._dead = True
            waiting, self._pending = self._pending, {}
            self._changed.notify_all()
        for future in waiting.values():
            future.set_exception(DriverDied("call", f"{self} died\n{self.log_text()}"))

    def _reap(self) -> None:
        """Wait for the end of process and reader, then close the pipes (an open one is a ResourceWarning)."""
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            _close_quietly(_pipe(pipe))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.name} client (pid {self.pid})"


class JavaDriver(ClientDriver):
    """The Java client of the given release, "4.9.7" or "5.5.0"."""

    def __init__(self, version: str, heap: str = "256m") -> None:
        classes = _java_classes(version)
        workdir = Path(tempfile.mkdtemp(prefix=f"client-{version}-"))
        write_home(workdir, version, "WARN")
        options = [f"-Xmx{heap}", "-XX:+UseSerialGC", QUICK_START]
        command = java(f"client-{version}", workdir, options, "Driver", also=str(classes))
        super().__init__(f"java-{version}", workdir, command, {})


class GoDriver(ClientDriver):
    """Apache's Go client."""

    def __init__(self) -> None:
        binary = _go_binary()
        workdir = Path(tempfile.mkdtemp(prefix="client-go-"))
        # HOME: offsets of broadcast consumers are kept below it.
        environment = {"ROCKETMQ_GO_LOG_LEVEL": "warn", "HOME": str(workdir)}
        super().__init__("go", workdir, [str(binary)], environment)


def _java_classes(version: str) -> Path:
    """Return the folder of the driver's class files, compiled against that release."""
    source = SOURCES / "java" / "Driver.java"
    jars = classpath(f"client-{version}")

    def compile_into(folder: Path) -> None:
        run_build([tool("javac"), "-nowarn", "-cp", jars, "-d", str(folder), str(source)], cwd=folder)

    return entry(f"classes-{version}-{_digest([source])}", "javac", compile_into)


def _go_binary() -> Path:
    """Return the Go driver, built from the committed module files."""
    folder = SOURCES / "go"
    sources = sorted([*folder.glob("*.go"), folder / "go.mod", folder / "go.sum"])

    def build_into(target: Path) -> None:
        run_build([tool("go"), "build", "-mod=readonly", "-o", str(target / "driver"), "."], cwd=folder)

    return entry(f"go-{_digest(sources)}", "go", build_into) / "driver"


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:12]


def _as_base64(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"not JSON: {value!r}")


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _close_quietly(pipe: IO[str]) -> None:
    """Close; what is still buffered for a dead process cannot be flushed and does not matter."""
    try:
        pipe.close()
    except OSError:
        return
