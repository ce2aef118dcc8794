"""Copies the messages of some keys into another topic, each key's in its order, by Spark.

    orderly broker start
    python examples/spark_copy.py localhost:9876 orders orders-copy order-17 order-18

`pin` fixes the end of the topic at the start, so both uses of the DataFrame read the same messages.
The second topic is created if it does not exist.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as f

from orderly import Client
from orderly.errors import TopicNotFound
from orderly.spark.discovering import pin
from orderly.spark.session import get_session
from orderly.spark.sink import write_ordered
from orderly.spark.source import read

COLUMNS = ("sharding_key", "queue_offset", "tag", "body")


def main(namesrv: str, source: str, target: str, *keys: str) -> int:
    """Copy; returns how many messages."""
    spark = get_session("copy")
    options = {"namesrv": namesrv, "topic": source, "pushdown": "true"}
    chosen = read(spark, pin(options), columns=COLUMNS, **options)
    chosen = chosen.where(f.col("sharding_key").isin(*keys))
    chosen.groupBy("sharding_key").count().show()
    with Client(namesrv=namesrv) as client:
        try:
            client.routes.get(target)
        except TopicNotFound:
            client.admin.create_topic(target, 4)
    # An offset numbers the messages of a queue, and a key is in one queue.
    ordered = chosen.withColumnRenamed("queue_offset", "at")
    write_ordered(ordered, topic=target, order_by="at", namesrv=namesrv)
    return chosen.count()


if __name__ == "__main__":
    print(f"{main(*sys.argv[1:])} messages")
