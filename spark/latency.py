"""How long messages take: from the producer's clock to the broker's, and to the consumer where clients trace.

Born to stored is in every record. It compares two clocks: a producer whose clock is ahead shows a negative time. For a
message that was delayed, retried or sent in a transaction it holds the wait as well, since a broker stores the message
anew and keeps its time of birth.

Traced clients tell in RMQ_SYS_TRACE_TOPIC when they sent a message, when a consumer took it up and how long it was at
it. Put together by the message's id this gives, per topic and consumer group, `sent to consumer` (until it was taken
up), `consuming`, and `end to end` (until it was done).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from mqctl.names import TRACE_TOPIC
from spark.asking import messages_asked, of_users, spread
from spark.result import Plot, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.result import Ask
    from spark.stores import Stores

BORN_TO_STORED: Final = "born to stored"
SENT_TO_CONSUMER: Final = "sent to consumer"
CONSUMING: Final = "consuming"
END_TO_END: Final = "end to end"
STAGES: Final = (BORN_TO_STORED, SENT_TO_CONSUMER, CONSUMING, END_TO_END)

# Between the fields of a line of a trace, and behind each line. Their order: mqctl/client/admin/traces.py.
_FIELD: Final = "\x01"
_END: Final = "\x02"


def run(stores: Stores, ask: Ask) -> Result:
    """Milliseconds, one row for each topic, group and stage; in each stage the `top` with the slowest percentile."""
    times = _born_to_stored(stores, ask).unionByName(_traced(stores, ask))
    spreads = times.groupBy("topic", "group", "stage").agg(
        F.count("*").alias("messages"), *spread(F.col("ms")), F.count_if(F.col("ms") < 0).alias("negative")
    )
    place = F.row_number().over(Window.partitionBy("stage").orderBy(F.desc("p99"), "topic", "group"))
    stage = F.array_position(F.array(*map(F.lit, STAGES)), F.col("stage"))
    frame = spreads.withColumn("place", place).where(F.col("place") <= ask.top).orderBy(stage, "place").drop("place")
    return Result("Latency in milliseconds", frame, plot=Plot("bars", "topic", "p99", "stage", "99 of 100, ms"))


def _born_to_stored(stores: Stores, ask: Ask) -> DataFrame:
    messages = of_users(messages_asked(stores, ask, "topic", "born_time", "store_time"), ask)
    return messages.select(
        "topic",
        F.lit(None).cast("string").alias("group"),
        F.lit(BORN_TO_STORED).alias("stage"),
        (F.unix_millis("store_time") - F.unix_millis("born_time")).alias("ms"),
    )


def _traced(stores: Stores, ask: Ask) -> DataFrame:
    """A consumer's lines do not name the topic: it is known from the producer's line about the same id."""
    lines = _lines(stores, ask)
    sent = lines.where(_is("Pub", 12)).select(
        F.explode(F.split(_field(5), ",")).alias("msg_id"),  # a batch is one line about many
        _number(1).alias("sent_ms"),
        _field(4).alias("topic"),
    )
    begun = lines.where(_is("SubBefore", 7)).select(
        _field(4).alias("request"), _field(5).alias("msg_id"), _number(1).alias("begun_ms"), _field(3).alias("group")
    )
    ended = lines.where(_is("SubAfter", 5)).select(
        _field(1).alias("request"), _field(2).alias("msg_id"), _number(3).alias("cost_ms")
    )
    if ask.topic:
        sent = sent.where(F.col("topic").isin(*ask.topic))
    lives = sent.groupBy("msg_id", "topic").agg(F.min("sent_ms").alias("sent_ms")).join(begun, "msg_id")
    wait, cost = F.col("begun_ms") - F.col("sent_ms"), F.col("cost_ms")
    stages = {SENT_TO_CONSUMER: wait, CONSUMING: cost, END_TO_END: wait + cost}
    return (
        lives.join(ended, ["request", "msg_id"], "left")
        .select("topic", "group", F.explode(_named(stages)))
        .where(F.col("col.ms").isNotNull())
        .select("topic", "group", "col.stage", "col.ms")
    )


def _lines(stores: Stores, ask: Ask) -> DataFrame:
    traces = stores.messages("body", topics=(TRACE_TOPIC,), since_ms=ask.since_ms, until_ms=ask.until_ms, body="full")
    return traces.select(F.explode(F.split(F.col("body").cast("string"), _END)).alias("line")).select(
        F.split("line", _FIELD).alias("fields")
    )


def _is(kind: str, last_field: int) -> Column:
    """Shorter lines are from clients that write their own."""
    return (_field(0) == kind) & (F.size("fields") > last_field)


def _field(at: int) -> Column:
    return F.get("fields", F.lit(at))


def _number(at: int) -> Column:
    return _field(at).try_cast("bigint")


def _named(stages: dict[str, Column]) -> Column:
    return F.array(*(F.struct(F.lit(name).alias("stage"), ms.alias("ms")) for name, ms in stages.items()))
