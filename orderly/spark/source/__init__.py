"""Topics as DataFrames: the Python data source `rocketmq`, in batches and in streams."""

import orderly.spark.extra  # noqa: F401  first: it says what is missing
from orderly.spark.source.data_source import RocketMQDataSource
from orderly.spark.source.frames import read, register, spread

__all__ = ["RocketMQDataSource", "read", "register", "spread"]
