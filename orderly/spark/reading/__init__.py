"""Reading ranges of queues: pulls in, record batches out; no membership, no commit, no lock."""

from orderly.spark.reading.ranges import read_range
from orderly.spark.reading.scan import Scan

__all__ = ["Scan", "read_range"]
