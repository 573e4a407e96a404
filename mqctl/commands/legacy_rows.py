"""Which command of ours does what each of mqadmin's does. How to read a row: see legacy.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.legacy import Old
from mqctl.commands.legacy_acl import ACL
from mqctl.commands.legacy_brokers import BROKERS
from mqctl.commands.legacy_consumers import CONSUMERS
from mqctl.commands.legacy_messages import MESSAGES
from mqctl.commands.legacy_topics import TOPICS

# By mqadmin's name.
NAMES: Final[dict[str, Old]] = {**TOPICS, **BROKERS, **CONSUMERS, **MESSAGES, **ACL}

# The same in lower case.
ROWS: Final[dict[str, Old]] = {name.lower(): old for name, old in NAMES.items()}
