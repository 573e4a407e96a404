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


def assign(
    wanted: QueryAssignmentBody, broker_name: str, queue_count: int, members: list[str]
) -> QueryAssignmentResult:
    """Queues to pull from. A consumer asks every broker of the topic, so each one shares out its own."""
    if wanted.message_model == BROADCASTING:
        mine = list(range(queue_count))
    else:
        mine = share(queue_count, sorted(members), wanted.client_id, circle=wanted.strategy_name == STRATEGY_CIRCLE)
    return QueryAssignmentResult(
        message_queue_assignments=[
            MessageQueueAssignment(
                message_queue=MessageQueue(topic=wanted.topic, broker_name=broker_name, queue_id=queue_id)
            )
            for queue_id in mine
        ]
    )


def share(queue_count: int, members: list[str], member: str, *, circle: bool) -> list[int]:
    """The queues of one member among sorted members: a block of neighbours, the first ones getting one more
    where it does not divide evenly, or every n-th queue."""
    if member not in members:
        return []
    index, count = members.index(member), len(members)
    if circle:
        return list(range(index, queue_count, count))
    size, extra = divmod(queue_count, count)
    start = index * size + min(index, extra)
    return list(range(start, start + size + (1 if index < extra else 0)))
