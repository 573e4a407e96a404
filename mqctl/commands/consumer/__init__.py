"""`mqctl consumer`: groups of consumers, their settings, their clients, and how far they are."""

from mqctl.commands.consumer import applying, clients, listing, settings, status
from mqctl.commands.consumer.shared import app

__all__ = ["app", "applying", "clients", "listing", "settings", "status"]
