"""Offsets of a selection are of queues that the table has: a typing error selects not more."""

import pytest

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.jobs.replay.selection import ReplaySelection

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_offsets_of_queues_of_the_table_are_taken():
    ReplaySelection(start={QUEUE: 0}, end={QUEUE: 5}).require_known([QUEUE])
    ReplaySelection().require_known([])


@pytest.mark.parametrize("edge", ["start", "end"])
def test_other_queues_and_edges_are_refused(edge):
    other = MessageQueue("orders", "broker-b", 0)
    with pytest.raises(ConfigError, match=r"no queue .*broker-b"):
        ReplaySelection(**{edge: {other: 5}}).require_known([QUEUE])
    for offset in (-1, -2):
        with pytest.raises(ConfigError, match="not an offset"):
            ReplaySelection(**{edge: {QUEUE: offset}}).require_known([QUEUE])
