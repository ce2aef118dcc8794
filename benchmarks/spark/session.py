"""The session that is measured, and what a query of it costs."""

import time
from dataclasses import dataclass

from benchmarks.spark.processes import Tree, own_cpu
from benchmarks.spark.synthetic import SyntheticSource
from orderly.spark.session import get_session
from orderly.spark.source import register

CORES = 2
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}


@dataclass(frozen=True)
class Cost:
    """Of one query: CPU seconds (JVM, Python workers and this process), and seconds."""

    cpu: float
    wall: float


class Session:
    """A Spark session and its processes."""

    def __init__(self, **settings):
        master = f"local[{CORES}]"
        self.spark = get_session("benchmarks", master=master, settings={**_SETTINGS, **settings})
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.dataSource.register(SyntheticSource)
        register(self.spark)
        self.tree = Tree(self.spark.sparkContext._gateway.proc.pid)  # noqa: SLF001  told nowhere else

    def cost(self, query):
        """Run `query()` and tell what it cost."""
        cpu, began = self.tree.cpu() + own_cpu(), time.perf_counter()
        query()
        return Cost(self.tree.cpu() + own_cpu() - cpu, time.perf_counter() - began)

    def cpu_per_row(self, query, rows):
        """CPU microseconds a row."""
        return self.cost(query).cpu / rows * 1e6

    def synthetic(self, rows, **options):
        """Rows of the synthetic source."""
        return self.spark.read.format("synthetic").options(rows=rows, **options).load()

    def worker_peak_mib(self):
        """The peak of the largest Python worker so far."""
        return self.tree.peak_mib("pyspark.daemon")

    def stop(self):
        """End Spark."""
        self.spark.stop()


def to_nowhere(frame):
    """Compute all rows of a DataFrame."""
    frame.write.format("noop").mode("overwrite").save()
