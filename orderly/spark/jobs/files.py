"""The files of one directory, on this machine or wherever Hadoop reaches: hdfs://, s3a://, ….

Names are relative, with `/` between folders. For small files and for moves: data goes through
Spark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from orderly.durable_file import FOR_ALL, hold, synced
from orderly.errors import OrderlyError


class Files(Protocol):
    """What a job does with files.

    Attributes:
        root: the directory as Spark takes it.
    """

    root: str

    def read(self, name: str) -> str | None:
        """The text of a file; None: no such file."""

    def write(self, name: str, text: str) -> None:
        """Make or replace a file: a reader finds the old or the new one, nothing between."""

    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder of that name."""

    def tree(self, folder: str = "") -> list[str]:
        """All files in a folder and its folders, sorted, as names below the directory."""

    def make(self, folder: str) -> bool:
        """Make a folder, and those it is in; False: it was there."""

    def move(self, name: str, to: str) -> None:
        """Give a file or a folder another name, which nothing has; its new folder is made."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; it need not be there."""


def files_at(spark: SparkSession, directory: str | os.PathLike[str]) -> Files:
    """The files of a directory, which need not be there.

    Args:
        spark: says where a path without a scheme is: this machine, unless `fs.defaultFS` is set.
        directory: a path, or a URI of a filesystem that Hadoop knows.
    """
    name = os.fspath(directory)
    conf = _hadoop_conf(spark)
    scheme = name.partition("://")[0] if "://" in name else ""
    if scheme == "file" or (not scheme and conf.get("fs.defaultFS", "file:///") == "file:///"):
        return LocalFiles(name.removeprefix("file://"))
    return HadoopFiles(spark, name)


@contextmanager
def exclusive(files: Files, refusal: OrderlyError) -> Iterator[None]:
    """Keep others on this machine out of a directory; those elsewhere nobody can see.

    Raises:
        OrderlyError: `refusal`, if another is in.
    """
    if not isinstance(files, LocalFiles):
        yield
        return
    files.path.mkdir(parents=True, exist_ok=True)
    with hold(files.path / ".lock", refusal):
        yield


def _hadoop_conf(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  no public way


class LocalFiles:
    """Files of this machine."""

    def __init__(self, directory: str) -> None:
        self.path = Path(directory).expanduser().absolute()
        self.root = f"file://{self.path}"  # Hadoop takes no %20

    def read(self, name: str) -> str | None:
        """See `Files`."""
        try:
            return self.path.joinpath(name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """See `Files`."""
        path = self.path.joinpath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        with synced(part, FOR_ALL) as file:
            file.write(text.encode())
        part.replace(path)

    def exists(self, name: str) -> bool:
        """See `Files`."""
        return self.path.joinpath(name).exists()

    def tree(self, folder: str = "") -> list[str]:
        """See `Files`."""
        found = self.path.joinpath(folder).rglob("*")
        return sorted(path.relative_to(self.path).as_posix() for path in found if path.is_file())

    def make(self, folder: str) -> bool:
        """See `Files`."""
        path = self.path.joinpath(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir()
        except FileExistsError:
            return False
        return True

    def move(self, name: str, to: str) -> None:
        """See `Files`."""
        target = self.path.joinpath(to)
        if target.exists():
            raise FileExistsError(str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.path.joinpath(name).rename(target)

    def remove(self, name: str) -> None:
        """See `Files`."""
        path = self.path.joinpath(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class HadoopFiles:
    """Files of a filesystem that Spark reaches, by Hadoop's FileSystem."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  no public way
        self._jvm = jvm
        path = jvm.org.apache.hadoop.fs.Path(directory)
        self._fs = path.getFileSystem(_hadoop_conf(spark))
        self._root = self._fs.makeQualified(path)
        self.root = str(self._root.toString())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def read(self, name: str) -> str | None:
        """See `Files`."""
        if not self._fs.exists(self._at(name)):
            return None
        stream = self._fs.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """See `Files`; where a rename replaces nothing, a reader may find no file for a moment."""
        path = self._at(name)
        part = self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.part")
        stream = self._fs.create(part, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self.remove(name)
        self._rename(part, path)

    def exists(self, name: str) -> bool:
        """See `Files`."""
        return bool(self._fs.exists(self._at(name)))

    def tree(self, folder: str = "") -> list[str]:
        """See `Files`."""
        if not self.exists(folder):
            return []
        found, names = self._fs.listFiles(self._at(folder), True), list[str]()
        while found.hasNext():
            path = str(found.next().getPath().toString())
            names.append(path.removeprefix(self.root).lstrip("/"))
        return sorted(names)

    def make(self, folder: str) -> bool:
        """See `Files`; two at the same time may both get True."""
        if self.exists(folder):
            return False
        return bool(self._fs.mkdirs(self._at(folder)))

    def move(self, name: str, to: str) -> None:
        """See `Files`."""
        if self.exists(to):
            raise FileExistsError(str(self._at(to).toString()))
        self._fs.mkdirs(self._at(to).getParent())
        self._rename(self._at(name), self._at(to))

    def _rename(self, path: Any, to: Any) -> None:
        if not self._fs.rename(path, to):
            raise OSError(f"{path.toString()} could not be renamed to {to.toString()}")

    def remove(self, name: str) -> None:
        """See `Files`."""
        self._fs.delete(self._at(name), True)
