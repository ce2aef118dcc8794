"""docs/how-to/migrate-from-java.md: a topic."""

TOPICS = {"orders": 4}
