"""What the commands about clusters share: asking all brokers for their figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqctl.commands.common import Session, noun
from mqctl.commands.selecting import chosen

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.load import Load
    from mqctl.client.clusters import Instance
    from mqctl.errors import MqError

app = noun("Show what runs, how busy it is, and whether it is well.")


@dataclass(frozen=True, slots=True)
class Seen:
    """All instances, and by address what those who answered say of themselves, as read and as sent."""

    instances: list[Instance]
    loads: dict[str, Load]
    runtimes: dict[str, dict[str, str]]
    failed: dict[str, MqError]


async def look(session: Session, admin: Admin, cluster: str | None) -> Seen:
    """Raises the first failure when no broker answers."""
    from mqctl.client.admin.everywhere import ask_all
    from mqctl.client.admin.load import Load

    instances = await chosen(admin, cluster, None)
    answers = await ask_all({instance.address: instance.address for instance in instances}, admin.runtime_info)
    now_ms = int(session.env.clock() * 1000)
    loads = {address: Load.read(runtime, now_ms) for address, runtime in answers.given.items()}
    return Seen(instances, loads, answers.given, answers.failed)
