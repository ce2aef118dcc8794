"""The book of an archive on its filesystem, and how a run becomes finished.

    archive.json                 which topic, and how it is read
    runs/000007.json             run 7 is finished: its messages count
    runs/000007.ready.json       run 7 is written as a whole and on its way to messages/
    _staging/run-000007/         run 7 is being written
    messages/dt=…/broker=…/queue_id=…/run-000007-….parquet

A run is written aside. Its page, marked ready, decides: without it the next run throws away what
was written, with it the next run completes it. So a crash at any point neither loses nor doubles
a row, and what reads by the finished pages never sees half of a run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from orderly.errors import ConfigError, OrderlyError, ProtocolError
from orderly.protocol.json_values import load_object, text_in
from orderly.spark.columns import COLUMNS
from orderly.spark.jobs.archive.ledger import Run, check_chain, from_text, to_text
from orderly.spark.jobs.files import Files

SCHEMA = "orderly.spark.archive/v1"
MESSAGES = "messages"
_STAGING = "_staging"
_READY = ".ready.json"
_PARTITIONS = ("dt", "broker", "queue_id")
ROWS = ", ".join(f"`{it.name}` {it.spark}" for it in COLUMNS.values()) + ", dt date"
"""Of archived messages, for Spark. Said, not guessed from folders: a broker may be called 007."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What must stay the same from run to run.

    Attributes:
        topic: archived.
        tags: only these; "*": all.
        seq_property: of the column `seq`.
        table_format: parquet or delta.
    """

    topic: str
    tags: str = "*"
    seq_property: str = ""
    table_format: str = "parquet"


class Book:
    """An archive's pages. One writer at a time; any number of readers.

    Args:
        spark: to move a Delta table's messages.
        files: of the archive's directory.
    """

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self.files = files

    def identity(self) -> Identity | None:
        """What is archived here; None: nothing yet.

        Raises:
            ConfigError: what is here is no archive of this release.
        """
        text = self.files.read("archive.json")
        if text is None:
            return None
        try:
            return _identity(load_object(text.encode()))
        except ProtocolError as error:
            raise ConfigError(f"{self.files.root} is no archive that is known: {error}") from error

    def claim(self, wanted: Identity) -> None:
        """Begin the archive, or see that it is the one wanted.

        Raises:
            ConfigError: it is another topic's, or is read in another way, or other files are here.
        """
        found = self.identity()
        if found is None:
            if others := [name for name in self.files.names() if not name.startswith((".", "_"))]:
                raise ConfigError(
                    f"{self.files.root} is no archive and not empty ({others[0]}): name another"
                    " directory"
                )
            told = {name: getattr(wanted, name) for name in Identity.__dataclass_fields__}
            self.files.write("archive.json", json.dumps({"schema": SCHEMA} | told, indent=1))
        elif found != wanted:
            raise ConfigError(
                f"{self.files.root} is an archive of {_told(found)}, not of {_told(wanted)}: name"
                " another directory"
            )

    def has_begun(self) -> bool:
        """Whether a run is finished, or written as a whole: only then is it on record where."""
        return any(name.endswith(".json") for name in self.files.names("runs"))

    def runs(self) -> list[Run]:
        """The finished runs, in order.

        Raises:
            OrderlyError: a page is damaged or missing.
        """
        names = [name for name in self.files.names("runs") if name.removesuffix(".json").isdigit()]
        runs = [from_text(self.files.read(f"runs/{name}") or "") for name in names]
        check_chain(runs)
        return runs

    # --- writing -------------------------------------------------------------------------------

    def staging(self, number: int) -> str:
        """The folder into which a run is written."""
        return f"{_STAGING}/{_run(number)}"

    def written(self, number: int) -> tuple[str, ...]:
        """The data files of a run that is being written, as they will be called."""
        prefix = self.staging(number) + "/"
        staged = (name.removeprefix(prefix) for name in self.files.tree(self.staging(number)))
        return tuple(_final(number, name) for name in staged if name.endswith(".parquet"))

    def finish(self, run: Run) -> None:
        """Make a written run a part of the archive: from here on it counts, whatever happens."""
        self.files.write(f"runs/{run.number:06}{_READY}", to_text(run))
        self.settle()

    def settle(self) -> None:
        """Complete a run that was written as a whole, and throw away one that was not."""
        for name in self.files.names("runs"):
            if name.endswith(_READY):
                self._complete(from_text(self.files.read(f"runs/{name}") or ""))
        self.files.remove(_STAGING)

    def _complete(self, run: Run) -> None:
        page = f"runs/{run.number:06}"
        if not self.files.exists(f"{page}.json"):
            identity = self.identity()
            assert identity is not None  # it was claimed before anything was written
            if identity.table_format == "delta":
                self._append(run)
            else:
                self._move(run)
            self.files.write(f"{page}.json", to_text(run))
        self.files.remove(page + _READY)

    def _move(self, run: Run) -> None:
        """Move what is not moved yet.

        Where a move is a copy and a removal (S3), a crash between the two leaves both.

        Raises:
            OrderlyError: a file is gone: the run must not be called finished.
        """
        for final in run.files:
            target = f"{MESSAGES}/{final}"
            if self.files.exists(target):
                continue
            staged = f"{self.staging(run.number)}/{_staged(run.number, final)}"
            if not self.files.exists(staged):
                raise OrderlyError(
                    f"{self.files.root}/{staged} is gone: it was removed, or two runs wrote to"
                    f" this archive. Remove runs/{run.number:06}{_READY} and what"
                    f" {MESSAGES} has of {_run(run.number)}: the next call archives it anew"
                )
            self.files.move(staged, target)

    def _append(self, run: Run) -> None:
        """Delta passes an append over whose number it has seen: a second attempt adds nothing."""
        if not run.files:
            return
        staged = f"{self.files.root}/{self.staging(run.number)}"
        (
            self._spark.read.schema(ROWS)
            .parquet(staged)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", SCHEMA)
            .option("txnVersion", run.number)
            .partitionBy(*_PARTITIONS)
            .save(f"{self.files.root}/{MESSAGES}")
        )


def _identity(fields: dict[str, Any]) -> Identity:
    if text_in(fields, "schema") != SCHEMA:
        raise ProtocolError(f"its schema is not {SCHEMA}")
    return Identity(**{name: text_in(fields, name) for name in Identity.__dataclass_fields__})


def _told(identity: Identity) -> str:
    return (
        f"topic {identity.topic} (tags {identity.tags}, seqProperty"
        f" {identity.seq_property or 'none'}, {identity.table_format})"
    )


def _run(number: int) -> str:
    return f"run-{number:06}"


def _final(number: int, staged: str) -> str:
    folder, _, name = staged.rpartition("/")
    return f"{folder}/{_run(number)}-{name}"


def _staged(number: int, final: str) -> str:
    folder, _, name = final.rpartition("/")
    return f"{folder}/{name.removeprefix(_run(number) + '-')}"
