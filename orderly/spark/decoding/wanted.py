"""What is to be made of stored messages: which columns, of messages with which tags."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from orderly.errors import ConfigError
from orderly.spark.columns import arrow_schema


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns and rows wanted.

    Attributes:
        columns: names, in the order wanted.
        seq_property: the property that column `seq` is read from; empty: `seq` is null.
        tags: rows with other tags are left out; empty: all rows.
        schema: of the batches.

    Raises:
        ConfigError: a name that is no column's, or a property that no message can have.
    """

    columns: tuple[str, ...]
    seq_property: str = ""
    tags: frozenset[str] = frozenset()
    schema: pa.Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not {"\x01", "\x02"}.isdisjoint(self.seq_property):
            raise ConfigError(
                f"{self.seq_property!r} names no property: \\x01 and \\x02 separate properties"
            )
        object.__setattr__(self, "schema", arrow_schema(self.columns))
