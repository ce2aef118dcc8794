"""Lets Spark find the format `rocketmq` by itself: it looks into modules named `pyspark_*`.

Spark imports all of them at the first use of any Python source, and one that fails to be imported
takes all formats along. So nothing is imported here before `DefaultSource` is asked for.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    """Give the data source away, if what it needs is installed."""
    if name == "DefaultSource":
        try:
            from orderly.spark.source import RocketMQDataSource  # noqa: PLC0415
        except ImportError as error:
            raise AttributeError("install rocketmq-orderly[spark]") from error
        return RocketMQDataSource
    raise AttributeError(name)
