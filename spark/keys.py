"""Which keys come most often, and which messages came twice, with the producers that sent them.

Three kinds of rows:

    hot         a key that many messages carry: more load on whatever it is about, and longer searches in the index
    repeated    a key that came with the same body under different message ids: an application sent it again
    resent      a message id that was stored more than once: a client sent it again, since no answer came in time

A message with several keys counts for each of them. Retries and delays store a message anew in topics of their own,
which do not count here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark.asking import messages_asked, of_users
from spark.result import Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark.result import Ask
    from spark.stores import Stores

HOT: Final = "hot"
REPEATED: Final = "repeated"
RESENT: Final = "resent"

# A row names at most so many producers, and says in another column how many there are.
SHOWN_PRODUCERS: Final = 5


def run(stores: Stores, ask: Ask) -> Result:
    """At most `top` rows of each kind, the most frequent first. `copies` are those that nobody needs. With `key` only
    what is about that key or message id."""
    messages = of_users(
        messages_asked(stores, ask, "topic", "keys", "uniq_key", "body_crc", "body_size", "born_host", "store_time"),
        ask,
    )
    kinds = _counted(_by_key_and_id(messages, ask)).select("*", F.explode(_kinds()).alias("kind"))
    kinds = kinds.withColumn("copies", F.when(F.col("kind") == RESENT, F.col("messages") - 1).otherwise(_repeats()))
    much = F.when(F.col("kind") == HOT, F.col("messages")).otherwise(F.col("copies"))
    place = F.row_number().over(Window.partitionBy("kind").orderBy(F.desc(much), "topic", "key"))
    frame = (
        kinds.withColumn("place", place)
        .where(F.col("place") <= ask.top)
        .orderBy("kind", "place")  # in the order of the alphabet: hot, repeated, resent
        .select("kind", "topic", "key", "messages", "copies", "producers", "born_hosts", "first", "last")
    )
    return Result("Keys that came more than once", frame)


def _by_key_and_id(messages: DataFrame, ask: Ask) -> DataFrame:
    """One row for each key of a message and one for its id, told apart by `is_id`: one scan answers all."""
    keys = F.transform(F.split("keys", " +"), lambda key: _named(key, is_id=False))
    names = F.concat(F.coalesce(keys, F.array()), F.array(_named(F.col("uniq_key"), is_id=True)))
    named = messages.withColumn("name", F.explode(names)).select("*", "name.*")
    return named.where(F.col("key") == ask.key if ask.key else F.col("key") != "")


def _named(key: Column, *, is_id: bool) -> Column:
    return F.struct(key.alias("key"), F.lit(is_id).alias("is_id"))


def _counted(named: DataFrame) -> DataFrame:
    hosts = F.sort_array(F.collect_set("born_host"))
    return (
        named.groupBy("topic", "is_id", "key")
        .agg(
            F.count("*").alias("messages"),
            F.count_distinct("uniq_key").alias("ids"),
            F.count_distinct("body_crc", "body_size").alias("bodies"),
            F.size(hosts).alias("producers"),
            F.array_join(F.slice(hosts, 1, SHOWN_PRODUCERS), " ").alias("born_hosts"),
            F.min("store_time").alias("first"),
            F.max("store_time").alias("last"),
        )
        .where(F.col("messages") > 1)
    )


def _repeats() -> Column:
    return F.greatest(F.col("ids") - F.col("bodies"), F.lit(0))


def _kinds() -> Column:
    of_id, of_key = F.array(F.lit(RESENT)), F.array(F.lit(HOT))
    also_repeated = F.array(F.lit(HOT), F.lit(REPEATED))
    return F.when(F.col("is_id"), of_id).when(_repeats() > 0, also_repeated).otherwise(of_key)
