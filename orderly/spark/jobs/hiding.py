"""Keys that may be personal data, in tables of Spark: `foreign_text.hidden` as a column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f


def hidden(key: Column, kind: Column | None = None) -> Column:
    """What is shown instead of a key; null stays null.

    Args:
        key: the keys' texts.
        kind: "s", or "i" for whole numbers as keys of parked messages; None: all are texts.
    """
    text = f.concat(f.lit("s") if kind is None else kind, key)
    return f.concat(f.lit("#"), f.substring(f.sha2(text.cast("binary"), 256), 1, 16))
