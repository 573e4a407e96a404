"""Who takes part: so many clients of each role, spread over the workers, and the topics they share."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """How messages travel. Each kind has topics of its own."""

    PLAIN = "plain"  # single sends and batches to push consumers, some of which come and go
    ORDERED = "ordered"
    PULLED = "pulled"
    DELAYED = "delayed"
    TRANSACTION = "transaction"


class Task(StrEnum):
    PRODUCE = "produce"
    CONSUME = "consume"
    CHURN = "churn"  # a consumer that leaves after some seconds and joins again
    OPERATE = "operate"  # creates, resizes and deletes topics, asks for statistics


class Role(NamedTuple):
    task: Task
    kind: Kind = Kind.PLAIN


# Of 200 clients.
CAST: Final = {
    Role(Task.PRODUCE, Kind.PLAIN): 50,
    Role(Task.PRODUCE, Kind.ORDERED): 20,
    Role(Task.PRODUCE, Kind.PULLED): 20,
    Role(Task.PRODUCE, Kind.DELAYED): 10,
    Role(Task.PRODUCE, Kind.TRANSACTION): 10,
    Role(Task.CONSUME, Kind.PLAIN): 32,
    Role(Task.CONSUME, Kind.ORDERED): 16,
    Role(Task.CONSUME, Kind.PULLED): 12,
    Role(Task.CONSUME, Kind.DELAYED): 8,
    Role(Task.CONSUME, Kind.TRANSACTION): 8,
    Role(Task.CHURN): 10,
    Role(Task.OPERATE): 4,
}
FULL: Final = sum(CAST.values())

MOST_TOPICS: Final = {Kind.PLAIN: 4, Kind.ORDERED: 2, Kind.PULLED: 2, Kind.DELAYED: 1, Kind.TRANSACTION: 1}
QUEUES: Final = 8


class Part(NamedTuple):
    """One client. `number` counts those of its role."""

    role: Role
    number: int


def parts(clients: int) -> list[Part]:
    """At least one of each role."""
    return [Part(role, n) for role, share in CAST.items() for n in range(max(1, round(share * clients / FULL)))]


def share(clients: int, worker: int, workers: int) -> list[Part]:
    return parts(clients)[worker::workers]


def topics(kind: Kind, clients: int) -> list[str]:
    """Not more than there are consumers for: each topic has a group of its own."""
    consumers = sum(part.role == Role(Task.CONSUME, kind) for part in parts(clients))
    return [f"soak-{kind}-{n}" for n in range(min(MOST_TOPICS[kind], consumers))]


def group(topic: str) -> str:
    return f"group-of-{topic}"
