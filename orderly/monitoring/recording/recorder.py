"""Writes snapshots to Parquet as they come: one file grows, then the next begins.

Parquet has its index at the end, so nothing can be appended to a file and survive a crash: each
snapshot replaces the growing file by a longer one, in one step. A crash loses the snapshot that
was being written, and no other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, final

import pyarrow as pa
import pyarrow.parquet as pq

from orderly.durable_file import FOR_ALL, sync_folder, synced
from orderly.errors import ConfigError
from orderly.file_lock import hold
from orderly.log import get_logger
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.recording.names import (
    day_of,
    days,
    expired,
    finished,
    finished_files,
    folder_of,
    growing_files,
    growing_name,
    part,
    part_files,
)
from orderly.monitoring.recording.rows import SCHEMA, batch_of

_log = get_logger("orderly.monitoring")
ROLL_AFTER = 3600.0  # seconds
MOST_ROWS = 250_000  # of one file: about 35 MB of memory, 2 MB on disk


@dataclass(slots=True)
class _Growing:
    """The file that grows, and what is in it."""

    path: Path
    began: float
    batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def takes(self, at: float, rows: int) -> bool:
        """Whether a snapshot belongs into this file: of its day and hour, and not too many."""
        within = day_of(at) == day_of(self.began) and at - self.began < ROLL_AFTER
        return within and self.rows + rows <= MOST_ROWS

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a snapshot; where files cannot be written for long, the oldest give way."""
        self.batches.append(batch)
        while self.rows > MOST_ROWS and len(self.batches) > 1:
            del self.batches[0]


@final
class Recorder:
    """Keeps a history of snapshots in a directory; give `take` to a monitor.

    One recorder at a time writes into a directory. What an earlier one left behind when it died
    is kept. Not thread-safe: a monitor calls `take` from one thread.

    Args:
        directory: made if it is not there.
        interval: seconds from one snapshot to the next, as planned.
        keep: seconds for which days are kept after they ended; None: for ever.

    Raises:
        ConfigError: another recorder writes there, or nobody can.
    """

    def __init__(self, directory: Path, *, interval: float, keep: float | None = None) -> None:
        self._directory = directory
        self._interval = interval
        self._keep = keep
        self._growing: _Growing | None = None
        self._failing = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = hold(
                directory / "_recorder.lock",
                ConfigError(f"another process records into {directory}: give another directory"),
            )
            self._adopt()
        except OSError as error:
            raise ConfigError(f"cannot record into {directory}: {error.strerror}") from error

    def _adopt(self) -> None:
        """Finish what a recorder that died has left."""
        for left in part_files(self._directory):
            left.unlink()
        for path in growing_files(self._directory):
            path.replace(finished(path))

    def take(self, snapshot: Snapshot) -> None:
        """Add a snapshot.

        If it cannot be written (the disk is full), a warning says so, and it is tried again with
        the next one; the oldest give way if that goes on for long.
        """
        batch = batch_of(snapshot, self._interval)
        if not batch.num_rows:
            return
        with self._telling():
            if self._growing is not None and not self._growing.takes(snapshot.at, batch.num_rows):
                self._roll()
                self._forget(snapshot.at)
        growing = self._grow(snapshot.at)
        growing.add(batch)
        with self._telling():
            _write(growing)
            self._failing = False

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Warn once for each time it begins to fail, not at every snapshot."""
        try:
            yield
        except OSError as error:
            emit = _log.debug if self._failing else _log.warning
            emit("recording.failed", directory=str(self._directory), error=str(error))
            self._failing = True

    def _grow(self, at: float) -> _Growing:
        """The file that grows; a snapshot begins it."""
        if self._growing is None:
            folder = folder_of(self._directory, day_of(at))
            self._growing = _Growing(folder / growing_name(at, secrets.token_hex(4)), at)
        return self._growing

    def _roll(self) -> None:
        """End the growing file."""
        assert self._growing is not None
        if self._failing:
            _write(self._growing)
        path = self._growing.path
        path.replace(finished(path))
        self._growing = None

    def _forget(self, now: float) -> None:
        """Remove days that are too old: our files, and their folder if nothing else is in it."""
        if self._keep is None:
            return
        for folder in expired(days(self._directory), now, self._keep):
            for path in finished_files(folder):
                path.unlink()
            if not any(folder.iterdir()):
                folder.rmdir()

    def close(self) -> None:
        """End the growing file, and let others record here. Idempotent."""
        with self._telling():
            if self._growing is not None:
                self._roll()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _write(growing: _Growing) -> None:
    """Replace the growing file by one with all its batches, on disk when this returns."""
    growing.path.parent.mkdir(exist_ok=True)
    whole = part(growing.path)
    with synced(whole, FOR_ALL) as file:
        pq.write_table(pa.Table.from_batches(growing.batches, SCHEMA), file, compression="zstd")
    whole.replace(growing.path)
    sync_folder(growing.path.parent)
