"""Who is connected: producers and consumers by group, learned from heartbeats."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from mqctl.remoting.bodies import ConsumerData, SubscriptionData
from mqctl.remoting.connection import Connection

log = logging.getLogger(__name__)

# A client that has sent no heartbeat for this long is gone, even if its connection still stands.
CLIENT_EXPIRY_SECONDS: Final = 120.0


@dataclass(slots=True)
class Client:
    """One client in one group."""

    client_id: str
    connection: Connection
    language: int
    version: int
    last_heartbeat: float


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a group and what it subscribes to. The last heartbeat speaks for the whole group: two
    members with different subscriptions overwrite each other, in Apache's broker too."""

    name: str
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    members: dict[Connection, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        return [member.client_id for member in self.members.values()]

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Takes over newer subscriptions and drops those not listed; True if a topic came or went."""
        latest = {subscription.topic: subscription for subscription in wanted}
        changed = latest.keys() != self.subscriptions.keys()
        for topic, subscription in latest.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
        for topic in self.subscriptions.keys() - latest.keys():
            del self.subscriptions[topic]
        return changed


class Clients:
    """Loop only. `on_group_changed` is called with a group whose members or topics have changed."""

    def __init__(
        self,
        on_group_changed: Callable[[ConsumerGroup], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_group_changed = on_group_changed
        self._clock = clock
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[Connection, Client]] = {}
        self._producer_by_id: dict[str, Connection] = {}

    def producer_connection(self, client_id: str) -> Connection | None:
        """The way to a client that has a producer, in whatever group."""
        return self._producer_by_id.get(client_id)

    def heartbeat_consumer(
        self, connection: Connection, client_id: str, language: int, version: int, data: ConsumerData
    ) -> None:
        group = self.consumers.setdefault(data.group_name, ConsumerGroup(data.group_name))
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        joined = self._refresh(group.members, connection, client_id, language, version)
        changed = group.subscribe(data.subscription_data_set)
        if joined or changed:
            self._on_group_changed(group)

    def heartbeat_producer(
        self, connection: Connection, client_id: str, language: int, version: int, group: str
    ) -> None:
        self._refresh(self.producers.setdefault(group, {}), connection, client_id, language, version)
        self._producer_by_id[client_id] = connection

    def _refresh(
        self,
        members: dict[Connection, Client],
        connection: Connection,
        client_id: str,
        language: int,
        version: int,
    ) -> bool:
        """True if the member is new."""
        known = members.get(connection)
        if known is not None and known.client_id == client_id:
            known.last_heartbeat = self._clock()
            return False
        # A client that reconnected before its old connection was seen to close must not count twice.
        for stale in [c for c, member in members.items() if member.client_id == client_id]:
            del members[stale]
        members[connection] = Client(client_id, connection, language, version, self._clock())
        return True

    def unregister(self, connection: Connection, producer_group: str | None, consumer_group: str | None) -> None:
        if producer_group:
            self._leave_producers(producer_group, connection)
        if consumer_group:
            self._leave_consumers(consumer_group, connection)

    def drop(self, connection: Connection) -> None:
        """The connection is gone, and with it every membership it carried."""
        for group in [name for name, members in self.producers.items() if connection in members]:
            self._leave_producers(group, connection)
        for group in [name for name, found in self.consumers.items() if connection in found.members]:
            self._leave_consumers(group, connection)

    def _leave_producers(self, group: str, connection: Connection) -> None:
        members = self.producers.get(group, {})
        left = members.pop(connection, None)
        if not members:
            self.producers.pop(group, None)
        # A client with producers in other groups can still be reached.
        gone = not any(connection in others for others in self.producers.values())
        if left is not None and gone and self._producer_by_id.get(left.client_id) is connection:
            del self._producer_by_id[left.client_id]

    def _leave_consumers(self, name: str, connection: Connection) -> None:
        group = self.consumers.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return
        if not group.members:
            del self.consumers[name]
        self._on_group_changed(group)

    def silent_seconds(self, member: Client) -> float:
        """How long ago its last heartbeat came."""
        return self._clock() - member.last_heartbeat

    def expire(self) -> None:
        """Closes the connections of clients that fell silent; closing them removes them."""
        oldest = self._clock() - CLIENT_EXPIRY_SECONDS
        everyone = [*self.producers.values(), *(group.members for group in self.consumers.values())]
        for member in [m for members in everyone for m in members.values() if m.last_heartbeat < oldest]:
            log.warning("%s: no heartbeat from %s, closed", member.connection.peer_text, member.client_id)
            member.connection.close()
