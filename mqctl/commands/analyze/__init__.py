"""`mqctl analyze`: jobs for Spark. A module per kind of question; importing one adds its commands."""

from mqctl.commands.analyze import comparing, figures, querying, waiting
from mqctl.commands.analyze.shared import app

__all__ = ["app", "comparing", "figures", "querying", "waiting"]
