"""Which brokers are there, at which addresses, and when they are gone.

Pure logic: no sockets, no wall clock. A channel is whatever object the server uses for a broker's connection;
here it is only compared. Nothing is kept on disk: brokers say everything again every 30 seconds.

    brokers   name -> BrokerData: the cluster, and the address of each broker id (0 = master)
    clusters  name -> names of its brokers
    live      address -> LiveBroker: when and over which channel it last spoke

An address has one place: one broker id under one name. Removal always goes by the address in `live`, so a
slave that became master, or a broker that changed its name, leaves nothing behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqctl.remoting.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfigTable,
    TopicRouteData,
)
from mqctl.remoting.headers_namesrv import RegisterBrokerHeader
from mqctl.remoting.topicbits import PERM_READ, PERM_WRITE
from mqctl.server.namesrv.queues import QueueTable

log = logging.getLogger(__name__)

MASTER_ID: Final = 0

# Four missed registrations. A 5.x broker in "slave acting master" mode names its own, shorter, limit.
SILENT_SECONDS: Final = 120.0

Channel = object


class Master(NamedTuple):
    """What a slave needs to know of its master."""

    addr: str
    ha_server_addr: str


@dataclass(slots=True)
class LiveBroker:
    """`complete_version` is the data version of its last registration that listed all its topics."""

    broker_name: str
    data_version: DataVersion
    complete_version: DataVersion | None
    channel: Channel
    ha_server_addr: str
    silent_seconds: float
    last_seen: float

    def is_at(self, version: DataVersion) -> bool:
        """Whether a broker at `version` has nothing to tell. News of single topics do not count: it may have
        lost others in between."""
        return version == (self.complete_version or self.data_version)


class RouteTable:
    """Loop only. `clock` counts seconds and never jumps: RocketMQ uses the time of day here, and setting the
    clock forward makes it drop every broker at once.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[str, LiveBroker] = {}
        self.queues = QueueTable()

    # -- coming -------------------------------------------------------------------------------------

    def register(
        self, broker: RegisterBrokerHeader, topics: TopicConfigTable, channel: Channel, *, complete: bool
    ) -> Master | None:
        """Takes the broker in, or hears that it still lives. Returns a slave's master, if that one is live.

        Topics count only when they come from a master. `complete` says that the table lists all it has.
        """
        live = self._live.get(broker.broker_addr)
        if live is not None and live.broker_name != broker.broker_name:
            self._drop(broker.broker_addr, f"is now {broker.broker_name}")
            live = None
        if self._settle(broker):
            live = None
        if broker.broker_id == MASTER_ID:
            self._take_topics(broker.broker_name, topics, live, complete)
        version = topics.data_version
        # A registration over a new connection takes the place of the old one, whose end then means nothing.
        self._live[broker.broker_addr] = LiveBroker(
            broker_name=broker.broker_name,
            data_version=version,
            complete_version=version if complete else live.complete_version if live else None,
            channel=channel,
            ha_server_addr=broker.ha_server_addr,
            silent_seconds=_silent_seconds(broker.heartbeat_timeout_millis),
            last_seen=self._clock(),
        )
        return None if broker.broker_id == MASTER_ID else self._master_of(broker.broker_name)

    def _take_topics(self, broker_name: str, topics: TopicConfigTable, live: LiveBroker | None, complete: bool) -> None:
        """`live` is what this master was before, None when it is new at its place.

        With another version everything is overwritten. A topic that is missing here is taken in any case, as
        5.x does: with 4.9.7 a broker whose first word after a restart of the name server was about one new
        topic had no route for all its others until it changed something again. 4.9.7 also never removes a
        topic that the broker no longer lists; here it goes, unless this registration was overtaken by a later
        one and simply does not know the topic yet.
        """
        version, table = topics.data_version, topics.topic_config_table
        known = None if live is None else live.complete_version if complete else live.data_version
        self.queues.take(broker_name, table, overwrite=version != known)
        if complete and version != known and not (live and _is_older(version, live.data_version)):
            self.queues.keep_only(broker_name, table)

    def _settle(self, broker: RegisterBrokerHeader) -> bool:
        """Gives the address its one place; True if it had another or none."""
        self._clusters.setdefault(broker.cluster_name, set()).add(broker.broker_name)
        data = self._brokers.get(broker.broker_name)
        if data is None:
            data = BrokerData(cluster=broker.cluster_name, broker_name=broker.broker_name, broker_addrs={})
            self._brokers[broker.broker_name] = data
        old_addr = data.broker_addrs.get(broker.broker_id)
        if old_addr == broker.broker_addr:
            return False
        _forget_address(data, broker.broker_addr)
        data.broker_addrs[broker.broker_id] = broker.broker_addr
        before = f", before it {old_addr}" if old_addr else ""
        log.info("broker %s/%d: at %s%s", broker.broker_name, broker.broker_id, broker.broker_addr, before)
        return True

    def _master_of(self, broker_name: str) -> Master | None:
        addr = self._brokers[broker_name].broker_addrs.get(MASTER_ID)
        live = self._live.get(addr) if addr else None
        return Master(addr, live.ha_server_addr) if addr and live else None

    def register_topic(self, topic: str, queue_datas: list[QueueData]) -> list[str]:
        """One topic, from 5.x brokers. Returns broker names that are unknown; then nothing was taken."""
        unknown = [queues.broker_name for queues in queue_datas if queues.broker_name not in self._brokers]
        if not unknown:
            for queues in queue_datas:
                self.queues.put(topic, queues)
        return unknown

    def touch(self, broker_addr: str) -> LiveBroker | None:
        """The broker lives. Returns what is known of it, None for an address that never registered."""
        live = self._live.get(broker_addr)
        if live is not None:
            live.last_seen = self._clock()
        return live

    # -- going --------------------------------------------------------------------------------------

    def unregister(self, broker_addr: str) -> None:
        self._drop(broker_addr, "unregistered")

    def channel_closed(self, channel: Channel) -> None:
        """Drops every broker that registered over this channel (several, when they share a process)."""
        for addr in [addr for addr, live in self._live.items() if live.channel is channel]:
            self._drop(addr, "connection closed")

    def expire(self) -> list[Channel]:
        """Drops brokers that were silent for too long; returns the channels that are now to be closed."""
        now = self._clock()
        silent = {addr: live for addr, live in self._live.items() if now - live.last_seen > live.silent_seconds}
        for addr, live in silent.items():
            self._drop(addr, f"silent for {now - live.last_seen:.0f} s")
        used = {id(live.channel) for live in self._live.values()}
        gone = {id(live.channel): live.channel for live in silent.values()}
        return [channel for key, channel in gone.items() if key not in used]

    def _drop(self, broker_addr: str, why: str) -> None:
        """Removes the address; with the last address of a name go the name and its topics."""
        live = self._live.pop(broker_addr, None)
        if live is None:
            return
        log.info("broker %s at %s: dropped, %s", live.broker_name, broker_addr, why)
        data = self._brokers.get(live.broker_name)
        if data is None:
            return  # another broker took its id, and left before it
        _forget_address(data, broker_addr)
        if data.broker_addrs:
            return
        del self._brokers[live.broker_name]
        self.queues.drop_broker(live.broker_name)
        for cluster, names in list(self._clusters.items()):
            names.discard(live.broker_name)
            if not names:
                del self._clusters[cluster]

    # -- operators ----------------------------------------------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> int:
        """Lasts until the broker registers with another data version. Returns the number of topics."""
        return self.queues.change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Read and write for every topic, whatever the broker said: that is RocketMQ's rule."""
        return self.queues.change_perm(broker_name, lambda _: PERM_READ | PERM_WRITE)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Until a broker that still has it registers again."""
        self.queues.delete(topic, self._clusters.get(cluster, ()) if cluster else None)

    # -- questions ----------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRouteData | None:
        """Where to send and pull; None when no broker that has an address has the topic."""
        queue_datas = self.queues.of_topic(topic)
        broker_datas = [self._brokers[q.broker_name] for q in queue_datas if q.broker_name in self._brokers]
        if not broker_datas:
            return None
        return TopicRouteData(broker_datas=broker_datas, queue_datas=queue_datas)

    def cluster_info(self) -> ClusterInfo:
        clusters = {cluster: sorted(names) for cluster, names in self._clusters.items()}
        return ClusterInfo(broker_addr_table=self._brokers, cluster_addr_table=clusters)

    def members(self, cluster: str, broker_name: str) -> BrokerData:
        known = self._brokers.get(broker_name)
        addresses = known.broker_addrs if known else {}
        return BrokerData(cluster=cluster, broker_name=broker_name, broker_addrs=addresses)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        return sorted(self.queues.of_brokers(self._clusters.get(cluster, ())))

    def system_topics(self) -> list[str]:
        """Every cluster and every broker has a topic of its own name."""
        return sorted(self._clusters.keys() | self._brokers.keys())

    def any_address(self) -> str | None:
        return next((addr for data in self._brokers.values() for addr in data.broker_addrs.values()), None)


def _forget_address(data: BrokerData, broker_addr: str) -> None:
    for broker_id in [key for key, addr in data.broker_addrs.items() if addr == broker_addr]:
        del data.broker_addrs[broker_id]


def _is_older(version: DataVersion, known: DataVersion) -> bool:
    """A 4.x broker sends some registrations oneway from a thread pool: they can overtake one another."""
    return (version.timestamp, version.counter) < (known.timestamp, known.counter)


def _silent_seconds(heartbeat_timeout_millis: int | None) -> float:
    if heartbeat_timeout_millis is None or heartbeat_timeout_millis <= 0:
        return SILENT_SECONDS
    return heartbeat_timeout_millis / 1000
