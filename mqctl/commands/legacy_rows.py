"""Which command of ours does what each of mqadmin's does. How to read a row: see legacy.py."""

from __future__ import annotations

from typing import Final

from mqctl.commands.legacy import Old
from mqctl.commands.legacy_consumers import CONSUMERS

# By mqadmin's name in lower case.
ROWS: Final[dict[str, Old]] = {name.lower(): old for name, old in {**CONSUMERS}.items()}
