"""`mqctl cluster`: what runs, how busy it is, whether it is well."""

from mqctl.commands.cluster import health, listing, responding
from mqctl.commands.cluster.shared import app

__all__ = ["app", "health", "listing", "responding"]
