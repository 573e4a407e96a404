"""What a change of a topic takes away from those who use it, and the question before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mqctl.commands.changing import confirm
from mqctl.commands.common import Session
from mqctl.figures import count_text

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.topics import Outcome
    from mqctl.remoting.bodies import TopicConfig


def confirm_losses(session: Session, plan: Callable[[Admin], Awaitable[Sequence[Outcome]]]) -> None:
    """Ends the program unless a person agrees to what the plan takes away. A new topic has nothing to lose."""

    async def find(admin: Admin) -> list[str]:
        return [loss for outcome in await plan(admin) for loss in await _losses(admin, outcome)]

    if losses := session.ask(find):
        confirm(session, f"{'; '.join(losses)}. Go on?", yes=False)


async def _losses(admin: Admin, outcome: Outcome) -> list[str]:
    before, after = outcome.before, outcome.after
    if before is None or after is None:
        return []
    found = [*_lost_rights(before, after)]
    if after.write_queue_nums < before.write_queue_nums:
        found.append(f"nobody writes to {_queues(after.write_queue_nums, before.write_queue_nums)} any more")
    if after.read_queue_nums < before.read_queue_nums:
        unread = await _unread(admin, outcome.topic, outcome.address, after.read_queue_nums)
        behind = ", ".join(f"{group} {count_text(number)}" for group, number in unread.items()) or "none"
        found.append(
            f"nobody reads {_queues(after.read_queue_nums, before.read_queue_nums)} any more, "
            f"messages that are not consumed there: {behind} (`mqctl topic resize` waits for them)"
        )
    return [f"{outcome.broker_name}: {loss}" for loss in found]


def _lost_rights(before: TopicConfig, after: TopicConfig) -> Iterator[str]:
    from mqctl.remoting.topicbits import PERM_READ, PERM_WRITE

    lost = before.perm & ~after.perm
    if lost & PERM_READ:
        yield "nobody may read"
    if lost & PERM_WRITE:
        yield "nobody may write"


def _queues(first: int, end: int) -> str:
    return f"queue {first}" if end - first == 1 else f"queues {first} to {end - 1}"


async def _unread(admin: Admin, topic: str, address: str, first: int) -> dict[str, int]:
    """By group, in the queues from this one on."""
    from mqctl.client.admin.everywhere import ask_each
    from mqctl.client.admin.progress import consume_stats
    from mqctl.client.admin.topicstats import topic_groups

    groups = await topic_groups(admin, address, topic)
    stats = await ask_each(groups, lambda group: consume_stats(admin, address, group, topic))
    behind = {
        group: sum(
            max(0, at.broker_offset - at.consumer_offset)
            for queue, at in one.offset_table.items()
            if queue.queue_id >= first
        )
        for group, one in zip(groups, stats, strict=True)
    }
    return {group: number for group, number in behind.items() if number}
