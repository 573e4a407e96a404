"""A file or folder on whatever file system its URI names, as Hadoop opens it: a disk, HDFS or an object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

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

    @property
    def local_path(self) -> Path | None:
        """Where it is on this machine's disks, if it is."""
        return Path(self._path.toUri().getPath()) if self._files.getUri().getScheme() == "file" else None

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

    def write(self, text: str) -> bool:
        """A new file. False if there is one already, which stays as it is."""
        try:
            stream = self._files.create(self._path, False)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException":
                return False
            raise
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        return True
