"""How much is too much, for those who ask before a broker is asked. Nothing else is imported here: options need it."""

from __future__ import annotations

from typing import Final

# More than any topic needs, and than brokers of ours take. Apache's takes any number, and then runs out of memory.
MAX_QUEUES: Final = 65_536
