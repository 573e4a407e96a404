"""`mqctl store`: store folders without a broker. A module per kind of work; importing one adds its commands."""

from mqctl.commands.store import changing, checking, listing, moving, reading
from mqctl.commands.store.shared import app

__all__ = ["app", "changing", "checking", "listing", "moving", "reading"]
