"""Apache RocketMQ's own name server, broker and mqadmin, as they come from Maven."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from . import wire
from .jars import classpath
from .jvm import QUICK_START, java, write_home
from .process import ServerProcess, free_port, write_properties

# The defaults are a gigabyte per commit log file; a test broker writes little and there may be many of them.
SMALL_COMMIT_LOG: Final = 64 * 1024 * 1024


class Completed(NamedTuple):
    """What a finished command printed and how it ended."""

    stdout: str
    stderr: str
    returncode: int


class ApacheServer(ServerProcess):
    """What Apache's two servers share: a Java main class and a configuration file."""

    main_class: str

    def __init__(self, version: str, workdir: Path, port: int, heap: str, jvm_args: Sequence[str]) -> None:
        super().__init__(workdir, port)
        self.version = version
        self.jvm_args = (f"-Xms{heap}", f"-Xmx{heap}", *jvm_args)
        self.conf_file = self.workdir / "server.conf"
        classpath(f"server-{version}")  # an unavailable peer shows here, not in the middle of a start

    @abstractmethod
    def properties(self) -> Mapping[str, object]:
        """Return the content of the configuration file."""

    def prepare(self) -> None:
        write_home(self.workdir, self.version, "INFO")
        write_properties(self.conf_file, self.properties())

    def environment(self) -> dict[str, str]:
        return {"ROCKETMQ_HOME": str(self.workdir)}

    def finish(self) -> None:
        """Kill: a graceful end takes a 4.9.7 broker 7 s and a 5.5.0 broker 17 s.

        Call stop() where a clean store matters.
        """
        self.kill()

    def command(self) -> list[str]:
        return java(f"server-{self.version}", self.workdir, self.jvm_args, self.main_class, "-c", str(self.conf_file))


class ApacheNamesrv(ApacheServer):
    """Apache's name server."""

    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"

    def __init__(
        self,
        version: str,
        workdir: Path,
        conf: Mapping[str, object] | None = None,
        heap: str = "128m",
        jvm_args: Sequence[str] = (QUICK_START,),
    ) -> None:
        super().__init__(version, workdir, free_port(), heap, jvm_args)
        self.conf = dict(conf or {})

    def properties(self) -> Mapping[str, object]:
        return {"listenPort": self.port, **self.conf}

    def is_ready(self) -> bool:
        return wire.answers(self.address, wire.GET_BROKER_CLUSTER_INFO)


class ApacheBroker(ApacheServer):
    """Apache's broker, a master unless ``conf`` says otherwise.

    ``namesrv`` is "host:port;host:port"; empty for a broker that registers nowhere.
    """

    main_class = "org.apache.rocketmq.broker.BrokerStartup"

    def __init__(
        self,
        version: str,
        workdir: Path,
        namesrv: str,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        conf: Mapping[str, object] | None = None,
        heap: str = "256m",
        jvm_args: Sequence[str] = (QUICK_START,),
    ) -> None:
        # listenPort - 2 is the "VIP" port, listenPort + 1 the replication port; neither can be moved.
        super().__init__(version, workdir, free_port(-2, 1), heap, jvm_args)
        self.namesrv = namesrv
        self.name = name
        self.cluster = cluster
        self.conf = dict(conf or {})

    @property
    def store_dir(self) -> Path:
        """The store's root folder."""
        return Path(str(self.conf.get("storePathRootDir", self.workdir / "store")))

    def properties(self) -> Mapping[str, object]:
        return {
            "brokerClusterName": self.cluster,
            "brokerName": self.name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": self.port,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.store_dir,
            "storePathCommitLog": self.store_dir / "commitlog",
            "mappedFileSizeCommitLog": SMALL_COMMIT_LOG,
            "waitTimeMillsInSendQueue": 10_000,  # 200 ms pass quickly on a busy machine, and it refuses sends then
            "timerFlushIntervalMs": 600_000,  # 5.x writes its whole timer wheel every second, a fifth of a core
            **self.conf,
        }

    def is_ready(self) -> bool:
        # Runtime info fails until the store has taken its first statistics, a second after registration;
        # waiting for it spares every mqadmin test that race.
        return wire.registered(self.namesrv, self.address) and wire.answers(
            self.address, wire.GET_BROKER_RUNTIME_INFO, successfully=True
        )


def mqadmin(version: str, namesrv: str, *args: str, timeout: float = 60) -> Completed:
    """Run one mqadmin command to its end; ``namesrv`` may be empty for commands that take none.

    mqadmin exits 0 for most failures, so look at the text as well.
    """
    with tempfile.TemporaryDirectory(prefix="mqadmin-") as folder:
        command = _mqadmin_command(version, namesrv, args, Path(folder))
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
    return Completed(done.stdout, done.stderr, done.returncode)


def mqadmin_line(version: str, namesrv: str, *args: str, begins: str, timeout: float = 60) -> str:
    """The first line that begins like this, of a command that would go on for ever; "" if it ends without."""
    with tempfile.TemporaryDirectory(prefix="mqadmin-") as folder:
        command = _mqadmin_command(version, namesrv, args, Path(folder))
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        killer = threading.Timer(timeout, process.kill)
        killer.start()
        try:
            assert process.stdout is not None
            return next((line for line in process.stdout if line.startswith(begins)), "")
        finally:
            killer.cancel()
            process.kill()
            process.communicate()


def _mqadmin_command(version: str, namesrv: str, args: Sequence[str], home: Path) -> list[str]:
    write_home(home, version, "WARN")
    options = ["-n", namesrv] if namesrv else []
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return java(f"server-{version}", home, ["-Xmx256m", QUICK_START], main, *args, *options)
