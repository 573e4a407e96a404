"""Who a client is to brokers: its id, and the groups it is a member of."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Final

from mqctl.remoting import bodies
from mqctl.remoting.bodies import ConsumerData, HeartbeatData, ProducerData
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import UnregisterClientHeader
from mqctl.remoting.unique_id import local_ip

_numbers: Final = itertools.count()


def new_client_id() -> str:
    """`ip@pid#number`, as Java makes it when no instance name is set."""
    return f"{local_ip()}@{os.getpid()}#{time.monotonic_ns() + next(_numbers)}"


class Identity:
    """Loop only."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id or new_client_id()
        self.producers: set[str] = set()
        # What a consumer subscribes to may change: the function says it as of now.
        self.consumers: dict[str, Callable[[], ConsumerData]] = {}

    @property
    def has_groups(self) -> bool:
        """Without a group there is nothing that a broker needs to know."""
        return bool(self.producers or self.consumers)

    def heartbeat(self) -> Command:
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self.producers)],
            consumer_data_set=[data() for data in self.consumers.values()],
        )
        return Command(RequestCode.HEART_BEAT, body=bodies.encode(data))

    def goodbyes(self) -> list[Command]:
        return [
            *(self.goodbye(producer_group=group) for group in sorted(self.producers)),
            *(self.goodbye(consumer_group=group) for group in self.consumers),
        ]

    def goodbye(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> Command:
        """Leaves one group."""
        header = UnregisterClientHeader(self.client_id, producer_group, consumer_group)
        return Command(RequestCode.UNREGISTER_CLIENT, ext=header_fields(header))
