"""Dead letters that are being sent again: one run for a group at a time, and what it has sent.

Whether a copy is there the brokers' index says, for all runs and from all machines. But brokers write it after the
message, so what a run sent last that was interrupted is known from here.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Final

from mqctl.env import Environment
from mqctl.remoting.pool import split_addresses
from mqctl.unfinished import Record

FOLDER: Final = "resends"
# What was sent before these is in the index by now, and a file without end would take too long to write every second.
MAX_SENT: Final = 20_000


@dataclass(slots=True)
class Resend:
    """`sent`: the topics of copies, by their ids."""

    group: str
    name_servers: str
    sent: dict[str, str] = field(default_factory=dict)

    def add(self, msg_id: str, topic: str) -> None:
        self.sent[msg_id] = topic
        if len(self.sent) > MAX_SENT:
            del self.sent[next(iter(self.sent))]


def record_of(env: Environment, resend: Resend) -> Record:
    """Raises ConfigError when somebody else is at it."""
    cluster = ";".join(sorted(split_addresses(resend.name_servers)))
    name = hashlib.sha256(f"{cluster} {resend.group}".encode()).hexdigest()[:16]
    busy = f"dead letters of {resend.group} are being sent elsewhere on this machine"
    return Record(env, FOLDER, name, lambda: asdict(resend), busy)
