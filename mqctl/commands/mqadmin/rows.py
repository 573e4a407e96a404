"""Which command of ours does what each of mqadmin's does. How to read a row: see translate.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.mqadmin.acl import ACL
from mqctl.commands.mqadmin.brokers import BROKERS
from mqctl.commands.mqadmin.consumers import CONSUMERS
from mqctl.commands.mqadmin.messages import MESSAGES
from mqctl.commands.mqadmin.topics import TOPICS
from mqctl.commands.mqadmin.translate import Old

# By mqadmin's name.
NAMES: Final[dict[str, Old]] = {**TOPICS, **BROKERS, **CONSUMERS, **MESSAGES, **ACL}

# The same in lower case.
ROWS: Final[dict[str, Old]] = {name.lower(): old for name, old in NAMES.items()}
