"""The public names of the source: topics as DataFrames, in batches and in streams.

`register` makes `spark.read.format("rocketmq")` known to a session.
"""

import orderly.spark.extra  # noqa: F401  first: it says what is missing
from orderly.spark.data_source import RocketMQDataSource, read, register, spread

__all__ = ["RocketMQDataSource", "read", "register", "spread"]
