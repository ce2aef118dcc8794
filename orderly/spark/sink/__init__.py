"""The sink: DataFrames into a topic, each key in its order, at least once.

`write_ordered` for a DataFrame and `ordered_batches` for a stream bring the rows of a key together
and into order. `df.write.format("rocketmq")` sends rows as they lie: it fails where a key's rows
come out of order, and, once all is sent, where a key was in several partitions.

What a consumer does about copies: `orderly.spark.stamps`. Only `writers` and `writing` need
pyspark, so the names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orderly.spark.sink.writers import make_stream_writer, make_writer
    from orderly.spark.sink.writing import ordered_batches, user_properties, write_ordered

__all__ = [
    "make_stream_writer",
    "make_writer",
    "ordered_batches",
    "user_properties",
    "write_ordered",
]

_HOMES = {
    "writers": ("make_stream_writer", "make_writer"),
    "writing": ("ordered_batches", "user_properties", "write_ordered"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            import_module("orderly.spark.extra")  # says what is missing
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
