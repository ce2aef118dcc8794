"""What one queue may cache, by the limits of a queue and of its topic."""

import pytest

from orderly.config import ConsumerConfig
from orderly.ordering.flow import queue_limits


@pytest.mark.parametrize(
    ("settings", "queues", "limits"),
    [
        ({}, 7, (100, 1000)),
        ({"pull_threshold_topic": 50}, 4, (12, 1000)),
        ({"pull_threshold_topic_bytes": 900}, 4, (100, 225)),
        ({"pull_threshold_topic": 3, "pull_threshold_topic_bytes": 3}, 4, (1, 1)),
        ({"pull_threshold_topic": 50, "pull_threshold_topic_bytes": 900}, 0, (50, 900)),
    ],
)
def test_a_limit_of_the_topic_is_split_over_its_queues_and_replaces_that_of_a_queue(
    settings, queues, limits
):
    config = ConsumerConfig(pull_threshold=100, pull_threshold_bytes=1000, **settings)
    assert queue_limits(config, queues) == limits
