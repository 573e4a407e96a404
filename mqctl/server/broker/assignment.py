"""Which queues of a topic a consumer gets, when the broker decides (QUERY_ASSIGNMENT of 5.x clients)."""

from __future__ import annotations

from mqctl.remoting.bodies import (
    MessageQueue,
    MessageQueueAssignment,
    QueryAssignmentBody,
    QueryAssignmentResult,
)

BROADCASTING = "BROADCASTING"
STRATEGY_CIRCLE = "AVG_BY_CIRCLE"


def assign(wanted: QueryAssignmentBody, queues: list[MessageQueue], members: list[str]) -> QueryAssignmentResult:
    """Queues to pull from. A consumer asks any one broker of the topic, which shares out those of all."""
    if wanted.message_model == BROADCASTING:
        mine = list(range(len(queues)))
    else:
        mine = share(len(queues), sorted(members), wanted.client_id, circle=wanted.strategy_name == STRATEGY_CIRCLE)
    in_order = sorted(queues)
    return QueryAssignmentResult(
        message_queue_assignments=[MessageQueueAssignment(message_queue=in_order[index]) for index in mine]
    )


def share(queue_count: int, members: list[str], member: str, *, circle: bool) -> list[int]:
    """The indices of one member's queues among sorted members: a block of neighbours, the first ones getting one more
    where it does not divide evenly, or every n-th queue."""
    if member not in members:
        return []
    index, count = members.index(member), len(members)
    if circle:
        return list(range(index, queue_count, count))
    size, extra = divmod(queue_count, count)
    start = index * size + min(index, extra)
    return list(range(start, start + size + (1 if index < extra else 0)))
