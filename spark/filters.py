"""Filters of a query as bounds of the reading. They only narrow it: Spark applies all of them once more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from mqctl.store.scan.messages import Wanted

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Columns that grow along the log, and the two bounds of each.
_BOUNDS: Final = {"phys_offset": ("from_offset", "to_offset"), "store_time": ("since_ms", "until_ms")}


def narrowed_by(wanted: Wanted, filters: Iterable[Filter]) -> Wanted:
    for each in filters:
        column, value = ".".join(getattr(each, "attribute", ())), getattr(each, "value", None)
        if column in _BOUNDS:
            wanted = _bounded(wanted, column, each, value)
        elif column == "topic":
            wanted = _of_topics(wanted, each, value)
        elif column == "queue_id" and isinstance(each, EqualTo) and wanted.queue_id is None:
            wanted = replace(wanted, queue_id=value)
    return wanted


def _of_topics(wanted: Wanted, given: Filter, value: Any) -> Wanted:
    """Messages of a topic that was deleted are in no queue any more, but in the answer to a query without this filter.
    So the log is read, unless topics were named by option."""
    topics = {value} if isinstance(given, EqualTo) else set(value) if isinstance(given, In) else set()
    if not topics or wanted.topics:
        return wanted
    return replace(wanted, topics=frozenset(topics - {None}), from_log=True)


def _bounded(wanted: Wanted, column: str, given: Filter, value: Any) -> Wanted:
    number = (_utc(value) - _EPOCH) // timedelta(milliseconds=1) if isinstance(value, datetime) else value
    if not isinstance(number, int):
        return wanted
    low, high = _BOUNDS[column]
    bounds: dict[str, Any] = {}
    if isinstance(given, GreaterThan | GreaterThanOrEqual | EqualTo):
        least = getattr(wanted, low)
        bounds[low] = number if least is None else max(number, least)
    if isinstance(given, LessThan | LessThanOrEqual | EqualTo):
        most = getattr(wanted, high)
        bounds[high] = number + 1 if most is None else min(number + 1, most)
    return replace(wanted, **bounds)


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)
