"""How large the messages of each topic are.

Reads the fixed part of every record: the size of the body as it is stored, so compressed where the producer did so,
and that of the whole record. The difference is what topic, keys, properties and the record's head take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark.asking import messages_asked, spread
from spark.result import Result

if TYPE_CHECKING:
    from pyspark.sql import Column

    from spark.result import Ask
    from spark.stores import Stores

_KIB: Final = 1024

# The columns of the histogram: bodies of at most so many bytes that are in no column before it.
STEPS: Final = {
    "to_256b": 256,
    "to_1k": _KIB,
    "to_4k": 4 * _KIB,
    "to_16k": 16 * _KIB,
    "to_64k": 64 * _KIB,
    "to_1m": _KIB * _KIB,
}
BEYOND: Final = "over_1m"


def run(stores: Stores, ask: Ask) -> Result:
    """The topics with the most bytes in the log first."""
    body = F.col("body_size")
    frame = (
        messages_asked(stores, ask, "topic", "size", "body_size", "msg_id")
        .groupBy("topic")
        .agg(
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
            F.round(F.avg(body), 1).alias("mean"),
            *spread(body),
            F.round(1 - F.sum(body) / F.sum("size"), 3).alias("overhead"),
            *_histogram(body),
            F.max_by("msg_id", body).alias("largest"),
        )
        .orderBy(F.desc("bytes"), "topic")
        .limit(ask.top)
    )
    return Result("Body sizes", frame)


def _histogram(body: Column) -> list[Column]:
    columns, below = [], -1
    for name, step in STEPS.items():
        columns.append(F.count_if((body > below) & (body <= step)).alias(name))
        below = step
    return [*columns, F.count_if(body > below).alias(BEYOND)]
