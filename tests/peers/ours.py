"""mqctl's name server and broker as child processes, behind the same surface as Apache's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from . import wire
from .process import ServerProcess, free_port, write_properties

# The servers run in their work folder, so the package must be findable without being installed.
REPOSITORY: Final = Path(__file__).resolve().parents[2]


class OurServer(ServerProcess):
    """What our two servers share: ``python -m mqctl <noun> -c FILE``, or another ``program`` than that one."""

    noun: str
    program: Sequence[str] = (sys.executable, "-m", "mqctl")

    def __init__(self, workdir: Path, port: int, conf: Mapping[str, object] | None) -> None:
        super().__init__(workdir, port)
        self.conf = dict(conf or {})
        self.conf_file = self.workdir / "server.conf"

    def properties(self) -> Mapping[str, object]:
        """Return the content of the configuration file; ``conf`` wins over the harness's choices."""
        return {"bindAddress": "127.0.0.1", "listenPort": self.port, **self.conf}

    def prepare(self) -> None:
        write_properties(self.conf_file, self.properties())

    def environment(self) -> dict[str, str]:
        # HOME: kvConfig.json and the like default to a place below it, as Java's do.
        path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        return {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "HOME": str(self.workdir)}

    def command(self) -> Sequence[str]:
        return [*self.program, self.noun, "-c", str(self.conf_file)]


class OurNamesrv(OurServer):
    """Our name server."""

    noun = "namesrv"

    def __init__(self, workdir: Path, conf: Mapping[str, object] | None = None) -> None:
        super().__init__(workdir, free_port(), conf)

    def is_ready(self) -> bool:
        return wire.answers(self.address, wire.GET_BROKER_CLUSTER_INFO)


class OurBroker(OurServer):
    """Our broker; ``namesrv`` is "host:port;host:port", or empty for a broker that registers nowhere."""

    noun = "broker"

    def __init__(
        self,
        workdir: Path,
        namesrv: str,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        conf: Mapping[str, object] | None = None,
    ) -> None:
        # The same neighbours as Apache's broker, whether or not ours uses them all.
        super().__init__(workdir, free_port(-2, 1), conf)
        self.namesrv = namesrv
        self.name = name
        self.cluster = cluster

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
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.store_dir,
            "waitTimeMillsInSendQueue": 10_000,
            "osPageCacheBusyTimeOutMills": 60_000,
            **super().properties(),
        }

    def command(self) -> Sequence[str]:
        return [*super().command(), *(["-n", self.namesrv] if self.namesrv else [])]

    def is_ready(self) -> bool:
        return wire.registered(self.namesrv, self.address) and wire.answers(self.address, wire.GET_BROKER_RUNTIME_INFO)
