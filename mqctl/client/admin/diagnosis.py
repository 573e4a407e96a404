"""What is wrong with the clients of a consumer group, judging by what they say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqctl.remoting.bodies_consumer import ConsumerRunningInfo
from mqctl.times import duration_text

# A listener that holds messages and has finished none for so long is taken to hang.
BLOCKED_MS: Final = 60_000


def verdicts(infos: Mapping[str, ConsumerRunningInfo], now_ms: int) -> dict[str, list[str]]:
    """By client id, what is wrong with it; nothing if all is well."""
    return {client_id: [*_subscription(client_id, infos), *_queues(info, now_ms)] for client_id, info in infos.items()}


def _subscription(client_id: str, infos: Mapping[str, ConsumerRunningInfo]) -> list[str]:
    """All clients of a group must subscribe alike: each is given queues of every topic, also of those that it does
    not ask for."""
    first = min(infos)
    if _wanted(infos[client_id]) == _wanted(infos[first]):
        return []
    return [f"does not subscribe to the same as {first}"]


def _wanted(info: ConsumerRunningInfo) -> set[tuple[str, str, str]]:
    return {(data.topic, data.expression_type, data.sub_string) for data in info.subscription_set}


def _queues(info: ConsumerRunningInfo, now_ms: int) -> list[str]:
    if info.properties.get("PROP_CONSUME_TYPE") != "CONSUME_PASSIVELY":
        return []  # who pulls by itself also decides when
    orderly = info.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"
    found = []
    for queue, state in sorted(info.mq_table.items()):
        name = f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
        if orderly and not state.locked:
            found.append(f"{name} is not locked")
        elif orderly and state.droped and state.try_unlock_times > 0:
            found.append(f"{name} could not be unlocked in {state.try_unlock_times} attempts")
        elif not orderly and state.cached_msg_count and now_ms - state.last_consume_timestamp > BLOCKED_MS:
            waited = duration_text(now_ms - state.last_consume_timestamp)
            found.append(f"{name} has {state.cached_msg_count} messages in hand and finished none for {waited}")
    return found
