"""What the commands about consumer groups share: naming a group, finding its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mqctl.commands.common import noun
from mqctl.commands.completing import complete_groups

if TYPE_CHECKING:
    from mqctl.client.admin import Admin
    from mqctl.client.admin.consumers import KnownGroups

app = noun("Show and change consumer groups, and see how far they are.")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)]


async def find_groups(admin: Admin, cluster: str | None) -> KnownGroups:
    """All groups of a cluster, or of all that the name server knows."""
    from mqctl.client.admin.consumers import known_groups
    from mqctl.client.admin.everywhere import brokers_of

    return await known_groups(admin, brokers_of(await admin.cluster_info(), cluster))


def type_text(consume_type: str) -> str:
    return {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}.get(consume_type, consume_type.lower())
