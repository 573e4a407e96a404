"""`mqctl msg`: send messages, find them, follow topics."""

from mqctl.commands.msg import finding, lookup, pushing, reading, sending, tracing
from mqctl.commands.msg.shared import app

__all__ = ["app", "finding", "lookup", "pushing", "reading", "sending", "tracing"]
