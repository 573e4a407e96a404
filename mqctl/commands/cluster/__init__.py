"""`mqctl cluster`: what runs, how busy it is, whether it is well, and what it consists of."""

from mqctl.commands.cluster import exporting, health, importing, listing, responding
from mqctl.commands.cluster.shared import app

__all__ = ["app", "exporting", "health", "importing", "listing", "responding"]
