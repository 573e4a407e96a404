"""What a look at the cluster says, as the rows of the tables of `mqctl top`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqctl.client.admin.overview import Overview, QueueFigures
from mqctl.client.admin.progress import QueueProgress
from mqctl.commands.top.state import Panel
from mqctl.output import Row


def rows_of(seen: Overview) -> dict[Panel, list[Row]]:
    return {Panel.BROKERS: _brokers(seen), Panel.TOPICS: _topics(seen), Panel.LAGS: _lags(seen)}


def _brokers(seen: Overview) -> list[Row]:
    return [
        {
            "brokerName": each.name,
            "cluster": each.cluster,
            "brokerId": each.broker_id,
            "address": each.address,
            "inTps": each.in_tps if each.error is None else None,
            "outTps": each.out_tps if each.error is None else None,
            "disk": each.disk if each.error is None else None,
            "version": each.runtime.get("brokerVersionDesc") if each.error is None else "does not answer",
        }
        for each in seen.brokers
    ]


def _topics(seen: Overview) -> list[Row]:
    return [{"topic": each.topic, "inTps": each.in_tps, "inBytes": each.in_bytes} for each in seen.topics]


def _lags(seen: Overview) -> list[Row]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for progress in seen.groups:
        clients = len(progress.connection.connection_set) if progress.connection is not None else 0
        for at in progress.queues:
            start = {"group": progress.group, "topic": at.queue.topic, "lag": 0, "seconds": 0.0, "clients": clients}
            row = rows.setdefault((progress.group, at.queue.topic), start)
            row["lag"] += at.behind
            row["seconds"] = max(row["seconds"], (at.delay_ms or 0) / 1000)
    return [row for row in rows.values() if row["lag"]]


# -- what is behind a line ------------------------------------------------------------------------------


def broker_detail(seen: Overview, line: Row) -> list[Row]:
    for each in seen.brokers:
        if each.address == line["address"]:
            if each.error is not None:
                return [{"name": "error", "value": each.error.message}]
            return [{"name": name, "value": value} for name, value in sorted(each.runtime.items())]
    return []


def lag_detail(seen: Overview, line: Row) -> list[Row]:
    return [
        _queue(at)
        for progress in seen.groups
        if progress.group == line["group"]
        for at in sorted(progress.queues, key=lambda at: (-at.behind, at.queue))
    ]


def _queue(at: QueueProgress) -> Row:
    return {
        "topic": at.queue.topic,
        "brokerName": at.queue.broker_name,
        "queueId": at.queue.queue_id,
        "brokerOffset": at.broker_offset,
        "consumerOffset": at.consumer_offset,
        "lag": at.behind,
        "seconds": (at.delay_ms or 0) / 1000,
    }


def topic_detail(queues: Sequence[QueueFigures]) -> list[Row]:
    return [
        {
            "brokerName": each.broker_name,
            "queueId": each.queue_id,
            "minOffset": each.min_offset,
            "maxOffset": each.max_offset,
            "lastTimestamp": each.last_timestamp,
        }
        for each in queues
    ]
