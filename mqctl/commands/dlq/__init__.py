"""`mqctl dlq`: messages that consumers gave up on."""

from mqctl.commands.dlq import listing, resending
from mqctl.commands.dlq.shared import app

__all__ = ["app", "listing", "resending"]
