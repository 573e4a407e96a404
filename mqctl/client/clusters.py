"""Which brokers a question or a change is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqctl.errors import ConfigError, ConnectionFailed, NotFound
from mqctl.remoting.bodies import ClusterInfo

MASTER_ID: Final = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """One running broker; a master and its slaves share a name."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


def instances(info: ClusterInfo, cluster: str | None = None) -> list[Instance]:
    """All that run, of one cluster or of all; sorted. Raises NotFound for a cluster that does not exist."""
    if cluster is not None and cluster not in info.cluster_addr_table:
        raise NotFound(f"there is no cluster {cluster}", hint=f"known: {_known(info)}")
    return [
        Instance(of, name, broker_id, address)
        for of, names in sorted(info.cluster_addr_table.items())
        if cluster in (None, of)
        for name in sorted(names)
        if name in info.broker_addr_table
        for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


def master_of(addresses: Mapping[int, str]) -> str | None:
    """From the addresses of one broker name, by broker id."""
    return addresses.get(MASTER_ID)


def readable_address(addresses: Mapping[int, str]) -> str | None:
    """The master, or while it is away the slave with the lowest id, which still hands out messages."""
    return addresses[min(addresses)] if addresses else None


def unreachable(address: str, error: ConnectionFailed) -> ConnectionFailed:
    """The same for a broker, with what may have gone wrong."""
    return ConnectionFailed(
        error.message,
        hint=f"the broker registered as {address}; if it runs but cannot be reached under that address from here, "
        "set brokerIP1 in its configuration",
    )


def masters(info: ClusterInfo, cluster: str | None) -> dict[str, str]:
    """Broker name to master address, of the cluster or of the only one there is.

    Raises NotFound for a cluster that does not exist or has no master, ConfigError when one must be chosen.
    """
    names = info.cluster_addr_table.get(cluster or _only_cluster(info))
    if names is None:
        raise NotFound(f"there is no cluster {cluster}", hint=f"known: {_known(info)}")
    brokers = {name: info.broker_addr_table[name] for name in sorted(names) if name in info.broker_addr_table}
    found = {name: master_of(broker.broker_addrs) for name, broker in brokers.items()}
    running = {name: address for name, address in found.items() if address is not None}
    if not running:
        raise NotFound(f"no master of cluster {cluster or _known(info)} is running")
    return running


def _only_cluster(info: ClusterInfo) -> str:
    if len(info.cluster_addr_table) > 1:
        raise ConfigError(f"there are several clusters: {_known(info)}", hint="choose one with -c")
    for cluster in info.cluster_addr_table:
        return cluster
    raise NotFound("no broker has registered with the name server", hint="start one with `mqctl broker -n host:port`")


def _known(info: ClusterInfo) -> str:
    return ", ".join(sorted(info.cluster_addr_table)) or "none"
