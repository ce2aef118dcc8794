"""What must be known of many messages of a key to judge their order, in one row.

A summary covers one key in one contiguous chunk of one queue. Two neighbours make one
(`combining`), so any splitting of a queue gives the same result. Needs numpy and pyarrow only.
"""

from orderly.spark.summary.schema import SCHEMA, needed
from orderly.spark.summary.summarizing import summarize

__all__ = ["SCHEMA", "needed", "summarize"]
