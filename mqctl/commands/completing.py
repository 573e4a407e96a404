"""Names from a running cluster, for shells that complete words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import typer

from mqctl.commands.common import Session, session_of

if TYPE_CHECKING:
    from mqctl.client.admin import Admin

# Whoever pressed TAB waits, and sees nothing of an error.
TIMEOUT_S: Final = 1.0


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin like this; none when no name server answers in time."""
    return _names(session_of(ctx), lambda admin: admin.topic_list(), incomplete)


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups that begin like this, likewise."""

    async def groups(admin: Admin) -> list[str]:
        from mqctl.client.admin.consumers import known_groups
        from mqctl.client.admin.everywhere import brokers_of

        return list((await known_groups(admin, brokers_of(await admin.cluster_info(), None))).brokers)

    return _names(session_of(ctx), groups, incomplete)


def complete_clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    async def clusters(admin: Admin) -> list[str]:
        return sorted((await admin.cluster_info()).cluster_addr_table)

    return _names(session_of(ctx), clusters, incomplete)


def complete_brokers(ctx: typer.Context, incomplete: str) -> list[str]:
    """By name, which is what people know."""

    async def brokers(admin: Admin) -> list[str]:
        return sorted((await admin.cluster_info()).broker_addr_table)

    return _names(session_of(ctx), brokers, incomplete)


def _names(session: Session, find: Callable[[Admin], Awaitable[list[str]]], incomplete: str) -> list[str]:
    import asyncio

    from mqctl.client.admin import Admin
    from mqctl.errors import MqError

    async def ask() -> list[str]:
        async with (
            asyncio.timeout(TIMEOUT_S),
            Admin(session.name_servers, timeout=TIMEOUT_S, credentials=session.credentials) as admin,
        ):
            return await find(admin)

    try:
        return [name for name in asyncio.run(ask()) if name.startswith(incomplete)]
    except (MqError, TimeoutError):
        return []
