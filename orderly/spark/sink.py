"""The public names of the sink: DataFrames into a topic, each key in its order, at least once.

`write_ordered` for a DataFrame and `ordered_batches` for a stream bring the rows of a key together
and into order. `df.write.format("rocketmq")` sends rows as they lie: it fails where a key's rows
come out of order, and, once all is sent, where a key was in several partitions.

What a consumer does about copies: `orderly.spark.stamps`. The names need pyspark and are imported
when they are first used; this module can be imported without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orderly.spark.data_source import ordered_batches, user_properties, write_ordered

__all__ = ["ordered_batches", "user_properties", "write_ordered"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        import_module("orderly.spark.extra")  # says what is missing
        return getattr(import_module("orderly.spark.data_source"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
