"""A file or folder on whatever file system its URI names, as Hadoop opens it: a disk, HDFS or an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Place:
    """For the driver only."""

    def __init__(self, spark: SparkSession, text: str) -> None:
        context: Any = spark.sparkContext
        self.text = text.rstrip("/")
        self._spark = spark
        self._jvm = context._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(self.text)
        self._files = self._path.getFileSystem(context._jsc.hadoopConfiguration())

    def __truediv__(self, name: str) -> Place:
        return Place(self._spark, f"{self.text}/{name}")

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def names(self) -> list[str]:
        """What a folder holds, sorted; nothing if there is no such folder."""
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._path)) if self.exists() else []

    def rename(self, target: Place) -> bool:
        return bool(self._files.rename(self._path, target._path))

    def delete(self) -> None:
        self._files.delete(self._path, True)

    def read(self) -> str:
        stream = self._files.open(self._path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, text: str) -> None:
        """The file must not be there yet."""
        stream = self._files.create(self._path, False)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
