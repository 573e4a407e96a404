"""Queue offsets along the log: which are believed."""

from __future__ import annotations

import pytest

from mqctl.store.offline.order import MAX_GAP, Kind, QueueOrder
from mqctl.store.walk import MAX_QUEUE_OFFSET

NEXT, AHEAD, RESTART, BACK, WRONG = Kind


def judged(offsets: list[int]) -> list[tuple[Kind, int]]:
    order: QueueOrder[int] = QueueOrder()
    steps = []
    for number, queue_offset in enumerate(offsets):
        if order.is_next(queue_offset):
            order.next_offset += 1
            steps.append((NEXT, number))
        else:
            steps += [(kind, item) for kind, _, item in order.take(queue_offset, number)]
    steps += [(kind, item) for kind, _, item in order.finish()]
    assert sorted(item for _, item in steps) == list(range(len(offsets)))
    return sorted(steps, key=lambda step: step[1])


@pytest.mark.parametrize(
    ("offsets", "kinds"),
    [
        ([], []),
        ([7], [NEXT]),
        ([0, 1, 2], [NEXT, NEXT, NEXT]),
        ([5, 6, 7], [NEXT, NEXT, NEXT]),  # the log begins later than the queue
        ([0, 1, 9, 3], [NEXT, NEXT, WRONG, AHEAD]),
        ([0, 1, 9, 2], [NEXT, NEXT, WRONG, NEXT]),  # it may belong to another queue
        ([0, 1, 0, 2], [NEXT, NEXT, WRONG, NEXT]),
        ([0, 1, 2, 1, 3], [NEXT, NEXT, NEXT, BACK, NEXT]),
        ([0, 1, 1, 3], [NEXT, NEXT, WRONG, AHEAD]),
        ([0, 1, 0, 3], [NEXT, NEXT, WRONG, AHEAD]),
        ([0, 1, 9, 10], [NEXT, NEXT, AHEAD, NEXT]),
        ([0, 1, 9], [NEXT, NEXT, AHEAD]),
        ([0, 1, 3, 4], [NEXT, NEXT, AHEAD, NEXT]),
        ([0, 1, 0, 1, 2], [NEXT, NEXT, RESTART, NEXT, NEXT]),
        ([0, 0, 0], [NEXT, RESTART, RESTART]),
        ([0, 1, 2, 1, 2, 3, 4], [NEXT, NEXT, NEXT, BACK, BACK, NEXT, NEXT]),
        ([99, 1, 2], [WRONG, NEXT, NEXT]),
        ([4, 0, 1], [NEXT, RESTART, NEXT]),
        ([0, 1, 2 + MAX_GAP + 1], [NEXT, NEXT, WRONG]),
        ([0, -1, 1], [NEXT, WRONG, NEXT]),
        ([0, MAX_QUEUE_OFFSET + 1, 2], [NEXT, WRONG, AHEAD]),
    ],
)
def test_what_is_believed(offsets: list[int], kinds: list[Kind]) -> None:
    assert [kind for kind, _ in judged(offsets)] == kinds


def test_others_may_refute_the_last_one() -> None:
    order: QueueOrder[str] = QueueOrder()
    assert list(order.take(0, "a")) == []
    assert [step.kind for step in order.take(1, "b")] == [NEXT, NEXT]
    assert list(order.take(0, "c")) == []
    assert [step.kind for step in order.finish(refuted=True)] == [WRONG]
    assert order.next_offset == 2
