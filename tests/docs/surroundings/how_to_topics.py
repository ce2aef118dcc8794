"""docs/how-to/topics.md: a topic on two brokers, that nobody uses at the moment."""

TOPICS = {"orders": 8}
BROKER = ("broker-a", "broker-b")
REPLACE = {"--queues 16 ": "--queues 16 --observe 0.1s --idle 0.2s "}
