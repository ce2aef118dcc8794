"""What stands in for the reader's own topic: the one that send.md made."""

TOPICS = {"orders": 4}
