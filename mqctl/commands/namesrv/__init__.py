"""`mqctl namesrv`: run a name server, or tend to running ones."""

from mqctl.commands.namesrv import keyvalue, settings
from mqctl.commands.namesrv.running import app

__all__ = ["app", "keyvalue", "settings"]
