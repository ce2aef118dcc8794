"""The public names of the source: topics as DataFrames, in batches and in streams.

`spark.read.format("rocketmq")` needs none of them: Spark finds the data source by itself.
"""

import orderly.spark.extra  # noqa: F401  first: it says what is missing
from orderly.spark.data_source import RocketMQDataSource, read, register, spread

__all__ = ["RocketMQDataSource", "read", "register", "spread"]
