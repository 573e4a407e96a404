"""What jobs have in common: which messages they are asked about, and how the spread of a number is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from mqctl.errors import NotFound
from spark.names import is_user_topic
from spark.queueless import queueless

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.result import Ask
    from spark.stores import Stores

# Names of columns and the part of all messages that is no larger.
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

# Of percentile_approx: off by one place in so many. It takes memory in proportion, per group.
_ACCURACY: Final = 10_000


def check_topics(stores: Stores, ask: Ask) -> None:
    """Raises NotFound for a topic that is neither configured in any store nor has queues there. Which topics a store
    has that lost its queues, only its log tells."""
    missing = set(ask.topic)
    for folder in stores.folders() if missing else ():
        missing -= folder.config("topics.json").get("topicConfigTable", {}).keys()
        missing -= {queue.topic for queue in folder.queues(frozenset(missing))}
    if missing and not queueless(stores):
        raise NotFound(
            f"no store has the topic {', '.join(sorted(missing))}", hint="mqctl analyze traffic --by topic lists them"
        )


def messages_asked(stores: Stores, ask: Ask, *columns: str, **options: Any) -> DataFrame:
    """Of all topics or those that were named, stored in the time that was asked for. Raises NotFound."""
    check_topics(stores, ask)
    return stores.messages(*columns, topics=ask.topic, since_ms=ask.since_ms, until_ms=ask.until_ms, **options)


def entries_asked(stores: Stores, ask: Ask, *columns: str, **options: Any) -> DataFrame:
    """The same, whenever stored, from the entries of the consume queues: store, topic, queue_id, size and tags_code are
    there. Where those were lost the log must do, which has no tags codes. Raises NotFound."""
    check_topics(stores, ask)
    if queueless(stores) and "tags_code" not in columns:
        return stores.messages(*columns, topics=ask.topic, **options)
    return stores.queues(*columns, topics=ask.topic, **options)


def of_users(frame: DataFrame, ask: Ask) -> DataFrame:
    """Without the topics that servers and retries make, unless topics were named."""
    return frame if ask.topic else frame.where(is_user_topic(F.col("topic")))


def spread(number: Column) -> list[Column]:
    """Aggregates: min, each percentile, max."""
    places = F.percentile_approx(number, list(PERCENTILES.values()), _ACCURACY)
    return [
        F.min(number).alias("min"),
        *(places[at].alias(name) for at, name in enumerate(PERCENTILES)),
        F.max(number).alias("max"),
    ]
