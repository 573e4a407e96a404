"""`mqctl topic`: create, change and describe topics."""

from mqctl.commands.selecting import ClusterOption
from mqctl.commands.topic import applying, deleting, describing, listing, ordering, resizing, updating
from mqctl.commands.topic.shared import TopicArgument, app

__all__ = [
    "ClusterOption",
    "TopicArgument",
    "app",
    "applying",
    "deleting",
    "describing",
    "listing",
    "ordering",
    "resizing",
    "updating",
]
