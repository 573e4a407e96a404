"""`mqctl acl`: who may do what, as brokers of RocketMQ 4 keep it."""

from mqctl.commands.acl import accounts, whitelist
from mqctl.commands.acl.shared import app

__all__ = ["accounts", "app", "whitelist"]
