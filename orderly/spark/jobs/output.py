"""A job's results in a directory: tables, `report.html`, and at the very end `result.json`.

Until `finish` all of it is under `.unfinished`, and a job that fails leaves nothing. So a directory
with a `result.json` is whole, whoever was killed when. Nothing is ever removed that no
`result.json` of ours names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from orderly.errors import ConfigError, OrderlyError
from orderly.extras import install
from orderly.report.contents import Report
from orderly.spark.jobs.files import Files, LocalFiles, files_at

RESULT, REPORT = "result.json", "report.html"
_UNFINISHED = ".unfinished"
_SCHEMA = "orderly.spark."
FORMATS = ("parquet", "delta")


def require_format(spark: SparkSession, table_format: str) -> None:
    """See before any work that tables can be written.

    Raises:
        ConfigError: an unknown format, or Delta in a session without it.
    """
    if table_format not in FORMATS:
        raise ConfigError(f"tables are {' or '.join(FORMATS)}, not {table_format!r}")
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  no public way to ask
    conf = spark._jsparkSession.sessionState().conf()  # noqa: SLF001
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(table_format, conf)
    except Exception as error:
        raise ConfigError(
            f"this Spark cannot write {table_format}: add Delta Lake with --conf"
            " spark.jars.packages=io.delta:delta-spark_2.13:VERSION, or use --table-format parquet"
        ) from error


class Output:
    """Where one run of a job leaves what it found. For one thread, in a `with` statement.

    Args:
        directory: a path, or a URI that Hadoop knows; on a cluster one that executors reach.
        table_format: of tables: "parquet", or "delta" in a session that has Delta Lake.
        overwrite: whether an earlier output of a job may be replaced.

    Raises:
        ConfigError: it holds an output and `overwrite` is not said, another run writes there, the
            session lacks the Delta Lake that is asked for, or reports cannot be made here.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        table_format: str = "parquet",
        *,
        overwrite: bool = False,
    ) -> None:
        self._html = _writer()
        self._spark = _session()
        require_format(self._spark, table_format)
        self.table_format = table_format
        self._files: Files = files_at(self._spark, directory)
        self._overwrite = overwrite
        self._old = self._former()
        self._tables: list[str] = []
        self._open = True
        self._take_place()

    @property
    def root(self) -> str:
        """The directory as Spark takes it."""
        return self._files.root

    def path(self, name: str) -> str:
        """Where a table is once the output is finished."""
        return f"{self.root}/{name}"

    def table(self, name: str, data: DataFrame | pa.Table) -> None:
        """Write a table.

        Args:
            name: small letters, digits, `_` and `-`.
            data: the rows.

        Raises:
            ConfigError: a bad name, or one that is taken.
            OrderlyError: what executors wrote is not to be seen from here.
        """
        self._check_name(name)
        self._tables.append(name)
        staged = f"{_UNFINISHED}/{name}"
        if self._is_small_and_here(data):
            self._write_here(staged, data)
            return
        frame = data if isinstance(data, DataFrame) else self._spark.createDataFrame(data)
        frame.write.format(self.table_format).save(f"{self.root}/{staged}")
        if not self._is_seen(staged):
            raise OrderlyError(
                f"executors wrote the table {name} to {self.root}, but the driver sees nothing"
                " there: on a cluster, the output must be on storage that all machines share"
            )

    def finish(self, document: Mapping[str, Any], report: Report) -> None:
        """Make it count; nothing can be added any more.

        Args:
            document: for `result.json`; its "schema" names the job and the format.
            report: for `report.html`.
        """
        tables = dict.fromkeys(self._tables, self.table_format)
        result = {**document, "tables": tables}
        text = json.dumps(result, indent=2, allow_nan=False) + "\n"  # first: it may be no JSON
        self._files.write(f"{_UNFINISHED}/{REPORT}", self._html(report))
        self._files.write(f"{_UNFINISHED}/{RESULT}", text)  # whose it is, if this ends half-way
        self._remove_old()
        for name in (*self._tables, REPORT):
            self._files.move(f"{_UNFINISHED}/{name}", name)
        self._files.write(RESULT, text)
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._open:
            self._open = False
            self._files.remove(_UNFINISHED)

    # --- what is there already --------------------------------------------------------------------

    def _former(self) -> list[str]:
        """The names of the parts of an earlier or a partial output; [] if there is no output."""
        text = self._files.read(RESULT)
        if text is not None and not self._overwrite:
            raise ConfigError(
                f"{self.root} holds a finished output: give another directory, or --overwrite"
            )
        text = text or self._files.read(f"{_UNFINISHED}/{RESULT}")
        if text is None:
            return []
        try:
            found = json.loads(text)
            ours = found["schema"].startswith(_SCHEMA)
            parts = [name for name in found["tables"] if _NAME.fullmatch(name)]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(_not_ours(self.root)) from error
        if not ours:
            raise ConfigError(_not_ours(self.root))
        return [RESULT, REPORT, *parts]

    def _take_place(self) -> None:
        if REPORT not in self._old and self._files.exists(REPORT):
            raise ConfigError(_somebodys(self.path(REPORT)))
        if self._files.make(_UNFINISHED):
            return
        if not self._overwrite:
            raise ConfigError(
                f"{self.root}/{_UNFINISHED} exists: another run writes to this directory, or a run"
                " was killed; give another directory, or --overwrite if no run is active"
            )
        if not self._files.exists(RESULT):
            self._remove_old()  # what one that was killed half-way had at its place
        self._files.remove(_UNFINISHED)
        self._files.make(_UNFINISHED)

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name) or name in self._tables:
            raise ConfigError(f"{name!r} cannot be the name of a part of an output, or is taken")
        if name not in self._old and self._files.exists(name):
            raise ConfigError(_somebodys(self.path(name)))

    def _remove_old(self) -> None:
        for name in self._old:  # the mark first: from then on it counts as no output
            self._files.remove(name)

    # --- writing ----------------------------------------------------------------------------------

    def _is_small_and_here(self, data: DataFrame | pa.Table) -> bool:
        small = not isinstance(data, DataFrame) and self.table_format == "parquet"
        return small and isinstance(self._files, LocalFiles)

    def _write_here(self, staged: str, data: pa.Table) -> None:
        from pyarrow import parquet  # noqa: PLC0415  costs a moment

        assert isinstance(self._files, LocalFiles)
        folder = self._files.path.joinpath(staged)
        folder.mkdir(parents=True)
        parquet.write_table(data, folder / "part-00000.parquet")

    def _is_seen(self, staged: str) -> bool:
        """Whether data arrived: a local path on a cluster is another one on every machine."""
        return any(_DATA.search(path) for path in self._files.tree(staged))


_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_DATA = re.compile(r"(^|/)part-[^/]*$")


def _somebodys(path: str) -> str:
    return (
        f"{path} is there, and no {RESULT} says that a job made it: remove it, or give another"
        " directory"
    )


def _not_ours(root: str) -> str:
    return f"the {RESULT} in {root} was not written by an orderly job: give another directory"


def _writer() -> Any:
    """What makes the page; asked for before hours of work, not after."""
    try:
        from orderly.report.page import html  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"a report needs jinja2 and matplotlib: {install('monitoring')}"
        ) from error
    return html


def _session() -> SparkSession:
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("there is no Spark session: make one first, as by get_session()")
    return spark
