"""docs/how-to/spark-on-a-cluster.md: a topic to count."""

TOPICS = {"orders": 4}
