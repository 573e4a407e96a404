"""What every job gets: the stores it was pointed at, as data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.locate import locate
from spark.datasource import FORMAT, StoreSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Stores:
    """`locations` as `mqctl.store.scan.locate` reads it. Columns that are not named are all of them."""

    def __init__(self, spark: SparkSession, locations: str) -> None:
        """Raises NotFound where there is no store."""
        spark.dataSource.register(StoreSource)
        self.spark = spark
        self.locations = locations
        self._folders = locate(locations)

    def folders(self) -> list[StoreFolder]:
        return list(self._folders)

    def only(self, *folders: StoreFolder) -> Stores:
        """These of them, under the names that they have here."""
        return Stores(self.spark, ";".join(f"{folder.name}={folder.root}" for folder in folders))

    def messages(
        self,
        *columns: str,
        topics: Sequence[str] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
        body: str = "none",
        **options: Any,
    ) -> DataFrame:
        """`body` is none, head:N or full. With topics: what consumers can read of them."""
        bounds = {"since_ms": since_ms, "until_ms": until_ms, "topics": ",".join(topics), "body": body, **options}
        return self._table("messages", columns, bounds)

    def queues(self, *columns: str, topics: Sequence[str] = (), **options: Any) -> DataFrame:
        return self._table("queues", columns, {"topics": ",".join(topics), **options})

    def index(self) -> DataFrame:
        return self._table("index")

    def offsets(self) -> DataFrame:
        return self._table("offsets")

    def topics(self) -> DataFrame:
        return self._table("topics")

    def groups(self) -> DataFrame:
        return self._table("groups")

    def delay_offsets(self) -> DataFrame:
        return self._table("delay_offsets")

    def _table(self, table: str, columns: Sequence[str] = (), options: dict[str, object] | None = None) -> DataFrame:
        given = {key: str(value) for key, value in (options or {}).items() if value not in (None, "")}
        reader = self.spark.read.format(FORMAT).option("stores", self.locations).option("table", table)
        return reader.option("columns", ",".join(columns)).options(**given).load()
