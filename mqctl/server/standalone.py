"""A name server and a broker in one process, for trying things out and for tests: their configurations.

What a broker's file says holds here too, except that the broker belongs to the name server beside it. Without
a file nothing is reachable from other machines.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqctl.config import bind
from mqctl.remoting.pool import split_addresses
from mqctl.server.broker.app import VIP_PORT_DISTANCE, Broker
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.namesrv.config import NamesrvConfig
from mqctl.server.namesrv.server import NameServer

LOOPBACK: Final = "127.0.0.1"
BROKER_NAME: Final = "broker-a"

# Reachable from the same machine whatever address the name server is bound to.
_ANY_ADDRESS: Final = {"0.0.0.0": LOOPBACK, "::": "[::1]", "": LOOPBACK}


@dataclass(frozen=True, slots=True)
class Standalone:
    namesrv: NamesrvConfig
    broker: BrokerConfig
    config_file: Path | None

    def servers(self) -> list[NameServer | Broker]:
        """To be called inside the loop. The name server comes first: the broker registers as it starts."""
        return [NameServer(self.namesrv), Broker(self.broker, config_file=self.config_file)]


def configure(
    properties: Mapping[str, str],
    config_file: Path | None,
    *,
    store: Path | None,
    namesrv_port: int,
    broker_port: int | None,
) -> tuple[Standalone, list[str]]:
    """Both configurations and the warnings about keys. What was asked for on the command line (not None)
    wins over the properties, and those over what standalone prefers. Raises ConfigError."""
    source = str(config_file) if config_file is not None else "the command line"
    warnings = []
    if split_addresses(properties.get("namesrvAddr", "")):
        warnings.append(f"{source}: namesrvAddr is not used, the broker registers with the name server beside it")
    bind_address = properties.get("bindAddress", LOOPBACK)
    merged = {
        "bindAddress": LOOPBACK,
        "brokerName": BROKER_NAME,
        **({"brokerIP1": LOOPBACK} if bind_address == LOOPBACK else {}),
        **properties,
        "namesrvAddr": f"{_ANY_ADDRESS.get(bind_address, bind_address)}:{namesrv_port}",
    }
    if store is not None:
        merged["storePathRootDir"] = str(store)
    if broker_port is not None:
        merged["listenPort"] = str(broker_port)
    broker, unknown = bind(BrokerConfig, merged, source)
    return Standalone(_namesrv(broker, namesrv_port), broker, config_file), warnings + unknown


def _namesrv(broker: BrokerConfig, port: int) -> NamesrvConfig:
    """Its files lie beside the broker's, so that one folder holds everything and can be thrown away."""
    folder = broker.root / "namesrv"
    return NamesrvConfig(
        listen_port=port,
        bind_address=broker.bind_address,
        kv_config_path=str(folder / "kvConfig.json"),
        config_store_path=str(folder / "namesrv.properties"),
    )


def free_port() -> int:
    """A port that is free together with the one the broker opens beside it."""
    while True:
        with socket.socket() as main, socket.socket() as vip:
            main.bind((LOOPBACK, 0))
            port = int(main.getsockname()[1])
            with contextlib.suppress(OSError):
                vip.bind((LOOPBACK, port - VIP_PORT_DISTANCE))
                return port
