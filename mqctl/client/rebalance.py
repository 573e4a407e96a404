"""Which queues belong to which consumer of a group.

There is no coordinator: every member computes the whole division by itself, from the same sorted queues and the same
sorted client ids, and takes its part. So each strategy here must give what Java's class of that name gives, to the
last queue, or a mixed group would consume a queue twice or not at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from hashlib import md5
from typing import Final, Protocol, TypeVar

from mqctl.remoting.bodies import MessageQueue

DEFAULT_VIRTUAL_NODES: Final = 10

T = TypeVar("T")


class Strategy(Protocol):
    """The part of `client_id`; nothing when it is not among `clients` (its heartbeat is still to arrive)."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str], /
    ) -> list[MessageQueue]: ...


def averagely(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
    """A run of neighbours for each; the first clients get one more where it does not come out even."""
    if client_id not in clients:
        return []
    index = clients.index(client_id)
    size, rest = divmod(len(queues), len(clients))
    start = index * size + min(index, rest)
    return list(queues[start : start + size + (index < rest)])


def circle(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
    """Dealt out one by one like cards."""
    if client_id not in clients:
        return []
    return list(queues[clients.index(client_id) :: len(clients)])


def consistent_hash(virtual_nodes: int = DEFAULT_VIRTUAL_NODES) -> Strategy:
    """Clients stand on a ring, each several times; a queue belongs to the next one behind its own place. A client
    that comes or goes moves few queues."""

    def allocate(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        if client_id not in clients:
            return []
        owners = {_ring_place(f"{client}-{node}"): client for client in clients for node in range(virtual_nodes)}
        places = sorted(owners)

        def owner(queue: MessageQueue) -> str | None:
            # The text is that of Java's MessageQueue.toString.
            text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            return owners[places[bisect_left(places, _ring_place(text)) % len(places)]] if places else None

        return [queue for queue in queues if owner(queue) == client_id]

    return allocate


def _ring_place(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def by_machine_room(rooms: Collection[str]) -> Strategy:
    """Only queues of brokers named `room@name` with one of these rooms, divided evenly."""

    def allocate(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        if client_id not in clients:
            return []
        index = clients.index(client_id)
        inside = [queue for queue in queues if _room_of_broker(queue.broker_name) in rooms]
        size, rest = divmod(len(inside), len(clients))
        own = inside[size * index : size * (index + 1)]
        # What is left over goes to the first clients, one each.
        return own + inside[size * len(clients) :][index : index + 1] if index < rest else own

    return allocate


def _room_of_broker(name: str) -> str | None:
    parts = name.rstrip("@").split("@")  # Java's split forgets empty parts at the end
    return parts[0] if len(parts) == 2 else None


def machine_room_nearby(
    room_of_queue: Callable[[MessageQueue], str],
    room_of_client: Callable[[str], str],
    inner: Strategy = averagely,
) -> Strategy:
    """Queues of a room go to the clients of that room; those of a room without clients are shared by all."""

    def allocate(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        if client_id not in clients:
            return []
        queues_in = _grouped(queues, room_of_queue)
        clients_in = _grouped(clients, room_of_client)
        here = room_of_client(client_id)
        own = inner(client_id, queues_in.pop(here, []), clients_in[here])
        for room in sorted(queues_in.keys() - clients_in.keys()):
            own += inner(client_id, queues_in[room], clients)
        return own

    return allocate


def _grouped(things: Sequence[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for thing in things:
        rooms.setdefault(room_of(thing), []).append(thing)
    return rooms


def by_config(own: Collection[MessageQueue]) -> Strategy:
    """These, whoever else is in the group."""

    def allocate(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        return list(own)

    return allocate
