"""Names from a running cluster, for shells that complete words. remembered.py spares it most of the questions."""

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
    return _names(session_of(ctx), "topics", lambda admin: admin.topic_list(), incomplete)


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups that begin like this, likewise."""

    async def groups(admin: Admin) -> list[str]:
        from mqctl.client.admin.consumers import known_groups
        from mqctl.client.admin.everywhere import brokers_of

        return list((await known_groups(admin, brokers_of(await admin.cluster_info(), None))).brokers)

    return _names(session_of(ctx), "groups", groups, incomplete)


def complete_clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    async def clusters(admin: Admin) -> list[str]:
        return sorted((await admin.cluster_info()).cluster_addr_table)

    return _names(session_of(ctx), "clusters", clusters, incomplete)


def complete_brokers(ctx: typer.Context, incomplete: str) -> list[str]:
    """By name, which is what people know."""

    async def brokers(admin: Admin) -> list[str]:
        return sorted((await admin.cluster_info()).broker_addr_table)

    return _names(session_of(ctx), "brokers", brokers, incomplete)


def complete_producer_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of producers that are connected."""

    async def producers(admin: Admin) -> list[str]:
        from mqctl.client.admin.consumers import producer_table
        from mqctl.client.admin.everywhere import brokers_of

        answers = await producer_table(admin, brokers_of(await admin.cluster_info(), None))
        return sorted({group for table in answers.given.values() for group in table.data})

    return _names(session_of(ctx), "producers", producers, incomplete)


def _names(session: Session, kind: str, find: Callable[[Admin], Awaitable[list[str]]], incomplete: str) -> list[str]:
    from mqctl.errors import MqError
    from mqctl.remembered import recall, remember

    try:
        key = f"{kind} of {session.name_servers}"
        names = recall(session.env, key)
        if names is None:
            names = _ask(session, find)
            remember(session.env, key, names)
    except (MqError, TimeoutError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def _ask(session: Session, find: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    import asyncio

    from mqctl.client.admin import Admin

    async def ask() -> list[str]:
        async with (
            asyncio.timeout(TIMEOUT_S),
            Admin(session.name_servers, timeout=TIMEOUT_S, credentials=session.credentials) as admin,
        ):
            return await find(admin)

    return asyncio.run(ask())
