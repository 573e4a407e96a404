"""`mqctl broker`: run a broker, or tend to running ones."""

from mqctl.commands.broker import cleaning, figures, replicas, sending, settings, writing
from mqctl.commands.broker.running import app

__all__ = ["app", "cleaning", "figures", "replicas", "sending", "settings", "writing"]
