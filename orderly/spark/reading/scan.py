"""What all tasks of one read have in common. Picklable; holds no secrets."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.protocol.heartbeat import ALL_TAGS


@dataclass(frozen=True, slots=True)
class Scan:
    """How ranges are read.

    Attributes:
        columns: names of `orderly.spark.columns`, in the order wanted.
        seq_property: the property that column `seq` is read from; empty: none.
        tags: "*", or "A || B": the broker compares hashes, the reader the tags themselves.
        pull_batch: messages asked for at once; a broker gives 32 unless it is told to give more.
        pull_depth: pulls in flight.
        batch_bytes: of stored messages, that a record batch is made of.
        fail_on_data_loss: whether messages that are gone are an error.
        group_prefix: the group that pulls are counted for; a broker makes it at the first pull.
    """

    columns: tuple[str, ...]
    seq_property: str = ""
    tags: str = ALL_TAGS
    pull_batch: int = 512
    pull_depth: int = 8
    batch_bytes: int = 1024 * 1024
    fail_on_data_loss: bool = True
    group_prefix: str = "orderly-spark"
