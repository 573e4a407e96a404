"""The bits of a topic's configuration: who may use it, and whether it belongs to one unit of several."""

from __future__ import annotations

from typing import Final

PERM_INHERIT: Final = 1  # new topics get its queues
PERM_WRITE: Final = 2
PERM_READ: Final = 4

# Of topicSysFlag.
UNIT: Final = 1
UNIT_SUB: Final = 2
