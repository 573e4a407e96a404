"""Accounts of RocketMQ 4's access control, as brokers tell them to tools. How to read them: see bodies.py."""

from __future__ import annotations

from typing import Final

from msgspec import field

from mqctl.remoting.bodies import Body

# Told in place of a secret; too short to be one.
MASKED: Final = "******"


class PlainAccessConfig(Body, kw_only=True):
    """One account. Permissions are lists of `name=PUB|SUB`; None is what was never set."""

    access_key: str = ""
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None


class AclConfig(Body, kw_only=True):
    """Reply to GET_BROKER_CLUSTER_ACL_CONFIG."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccessConfig] = field(default_factory=list)
