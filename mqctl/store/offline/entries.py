"""What a record of the log tells about its entry in a consume queue."""

from __future__ import annotations

from typing import Final

from mqctl.store import record
from mqctl.store.javahash import java_hash
from mqctl.store.properties import TAGS, get_property
from mqctl.store.rebuild import NOT_FOR_CONSUMERS

SYS_INNER_BATCH: Final = 0x80  # 5.x: such records are listed in batchconsumequeue, not here


def has_entry(sys_flag: int) -> bool:
    """Whether a record with this flag is listed in a consume queue."""
    return sys_flag & record.SYS_TRANSACTION_MASK not in NOT_FOR_CONSUMERS and not sys_flag & SYS_INNER_BATCH


def place_problem(topic: bytes, queue_id: int) -> str | None:
    """Why there can be no such queue, None if there can: no CRC covers a record's topic and queue."""
    if not topic or b"\0" in topic or b"/" in topic or topic in (b".", b".."):
        return f"the topic {topic!r} cannot be one"
    return f"the queue {queue_id} cannot be one" if queue_id < 0 else None


def tags_code(properties: bytes) -> int:
    """Most texts are cut down to the one pair before anything is decoded."""
    at = properties.rfind(b"TAGS\x01")
    if at < 0:
        return 0
    end = properties.find(b"\x02", at)
    if at == 0 or properties[at - 1] == 2:
        tags = properties[at + 5 : end if end >= 0 else None].decode(errors="replace")
    else:  # the end of another name, or within a value
        tags = get_property(properties.decode(errors="replace"), TAGS) or ""
    return java_hash(tags) if tags else 0
