"""The doctor's page: a topic to look at."""

TOPICS = {"orders": 4}
