"""Which delayed messages were taken back by their senders."""

from __future__ import annotations

from mqctl.remoting.recallhandle import recall_key


class Recalled:
    """Keys of messages that are not to be delivered, until the time they would have been delivered is long over."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def add(self, key: str, until_ms: int) -> None:
        self._until_ms[key] = max(until_ms, self._until_ms.get(key, 0))

    def covers(self, topic: str, unique_key: str | None) -> bool:
        """RocketMQ 5 names a message by topic and UNIQ_KEY, its first releases by UNIQ_KEY alone."""
        if not self._until_ms or unique_key is None:
            return False
        return recall_key(topic, unique_key) in self._until_ms or unique_key in self._until_ms

    def forget_before(self, now_ms: int) -> None:
        for key in [key for key, until_ms in self._until_ms.items() if until_ms < now_ms]:
            del self._until_ms[key]
