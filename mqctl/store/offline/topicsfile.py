"""config/topics.json for topics whose messages were brought in: a broker serves only what is listed there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mqctl.names import SCHEDULE_TOPIC
from mqctl.store.offline.check_config import ParseJson
from mqctl.store.smallfiles import load_file_or_backup, replace_file

READ_AND_WRITE: Final = 6

# Every broker has these anyway, with queues as it needs them.
_BUILT_IN: Final = (SCHEDULE_TOPIC, "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "TBW102")
_BUILT_IN_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_", "%LMQ%")


def list_topics(
    root: Path, queues: Mapping[str, int], parse_json: ParseJson, write_json: Callable[[Any], bytes]
) -> list[str]:
    """Adds the topics that are missing, with so many queues, and lets consumers read that many of the others.
    Returns which were added. Raises StoreError for a file that cannot be used."""
    path = root / "config" / "topics.json"
    content = load_file_or_backup(path, lambda data: _checked(parse_json(data))) or {}
    table = content.setdefault("topicConfigTable", {})
    added, changed = [], False
    for topic, count in queues.items():
        if topic in _BUILT_IN or topic.startswith(_BUILT_IN_PREFIXES):
            continue
        if topic not in table:
            table[topic] = _topic(topic, count)
            added.append(topic)
        elif table[topic].get("readQueueNums", 0) < count:
            table[topic]["readQueueNums"] = count
            changed = True
    if added or changed:
        version = content.get("dataVersion") or {}
        counter = version.get("counter", 0) + 1
        content["dataVersion"] = {**version, "counter": counter, "timestamp": int(time.time() * 1000)}
        replace_file(path, write_json(content))
    return added


def _checked(content: Any) -> dict[str, Any]:
    table = content.get("topicConfigTable") if isinstance(content, dict) else None
    if not isinstance(table, dict) or not all(isinstance(config, dict) for config in table.values()):
        raise ValueError("it has no topicConfigTable")
    return {**content}


def _topic(topic: str, queues: int) -> dict[str, Any]:
    return {
        "order": False,
        "perm": READ_AND_WRITE,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }
