"""docs/how-to/topics.md: a topic on two brokers, that nobody uses at the moment."""

TOPICS = {"orders": 8}
BROKER = ("broker-a", "broker-b")
REPLACE = {"--queues 16 ": "--queues 16 --watch 0.1s --quiet 0.2s "}
