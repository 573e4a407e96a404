"""A topic's configuration: the bits that say who may use it and whether it belongs to a unit of a deployment over
several, and how many queues are too many."""

from __future__ import annotations

from typing import Final

PERM_INHERIT: Final = 1  # new topics get its queues
PERM_WRITE: Final = 2
PERM_READ: Final = 4

# More than any topic needs, and than brokers of ours take. Apache's takes any number, and then runs out of memory.
MAX_QUEUES: Final = 65_536

# Of topicSysFlag.
UNIT: Final = 1
UNIT_SUB: Final = 2
