"""Names from a running cluster, for shells that complete words."""

from __future__ import annotations

from typing import Final

import typer

from mqctl.commands.common import Session, session_of

# Whoever pressed TAB waits, and sees nothing of an error.
TIMEOUT_S: Final = 1.0


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin like this; none when no name server answers in time."""
    return [topic for topic in _topics(session_of(ctx)) if topic.startswith(incomplete)]


def _topics(session: Session) -> list[str]:
    import asyncio

    from mqctl.client.admin import Admin
    from mqctl.errors import MqError

    async def ask() -> list[str]:
        async with asyncio.timeout(TIMEOUT_S), Admin(session.name_servers, timeout=TIMEOUT_S) as admin:
            return await admin.topic_list()

    try:
        return asyncio.run(ask())
    except (MqError, TimeoutError):
        return []
