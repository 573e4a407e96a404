"""What the commands about access control share: asking and telling all brokers, masters and slaves, at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from mqctl.commands.common import Session, noun
from mqctl.commands.selecting import chosen, one_of

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.everywhere import Answers

T = TypeVar("T")

app = noun("Show and change accounts, and addresses that need none.")


def everywhere(
    session: Session, cluster: str | None, broker: str | None, work: Callable[[Admin, str], Awaitable[T]]
) -> Answers[T]:
    """By broker address. `work` is done at each of them, as brokers do not tell each other about accounts."""
    one_of(cluster, broker)

    async def run(admin: Admin) -> Answers[T]:
        from mqctl.client.admin.everywhere import ask_all

        addresses = [one.address for one in await chosen(admin, cluster, broker)]
        return await ask_all({address: address for address in addresses}, lambda address: work(admin, address))

    return session.ask(run)


def addresses_of(session: Session, cluster: str | None, broker: str | None) -> list[str]:
    one_of(cluster, broker)
    return [one.address for one in session.ask(lambda admin: chosen(admin, cluster, broker))]
