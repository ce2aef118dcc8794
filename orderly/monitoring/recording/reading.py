"""Finds a history: which files are finished, and what the growing one holds right now.

A recorder may be writing meanwhile. The growing file is read before the finished ones are listed,
so that a file that is finished in between is told once, and not missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from orderly.errors import ConfigError
from orderly.monitoring.recording.names import (
    day_of,
    days,
    finished,
    finished_files,
    growing_files,
)
from orderly.monitoring.recording.rows import SCHEMA


@dataclass(frozen=True, slots=True)
class History:
    """What is recorded.

    Attributes:
        files: finished ones, which do not change any more; sorted.
        growing: the rows of files that are not finished.
    """

    files: tuple[Path, ...]
    growing: pa.Table


def find_history(
    directory: Path, since: float | None = None, until: float | None = None
) -> History:
    """Find what is recorded in a directory, of the days asked for.

    Args:
        directory: that a `Recorder` was given.
        since: seconds since the epoch; whole days are found, so rows must be looked at again.
            None: from the beginning.
        until: as `since`. None: to the end.

    Raises:
        ConfigError: nothing is recorded there for these days, or it was not a recorder of ours.
    """
    first = None if since is None else day_of(since)
    last = None if until is None else day_of(until)
    growing, read = _growing(directory)
    files = tuple(
        file
        for day, folder in days(directory).items()
        if (first is None or first <= day) and (last is None or day <= last)
        for file in finished_files(folder)
        if file not in read
    )
    if not files and not growing.num_rows:
        asked = "" if first is None and last is None else " for the time asked for"
        raise ConfigError(
            f"no history of backlogs is in {directory}{asked}: `orderly backlog record DIR` or"
            " `orderly exporter --record DIR` writes one"
        )
    for file in files[:1]:
        _check(file)
    return History(files, growing)


def _growing(directory: Path) -> tuple[pa.Table, set[Path]]:
    """The rows of unfinished files, and the names these will have."""
    tables, read = [SCHEMA.empty_table()], set()
    for path in growing_files(directory):
        try:
            tables.append(pq.read_table(path, schema=SCHEMA, partitioning=None))
        except FileNotFoundError:  # finished since it was listed
            continue
        read.add(finished(path))
    return pa.concat_tables(tables), read


def _check(file: Path) -> None:
    """See that a file is one of a recorder's."""
    try:
        missing = set(SCHEMA.names) - set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{file} cannot be read as Parquet: {error}") from error
    if missing:
        raise ConfigError(f"{file} is no history of backlogs: {', '.join(sorted(missing))} lack")
