"""What groups have consumed is told by every broker that knows of it, or it is not known."""

import pytest

from orderly.client import Client
from orderly.errors import RouteError
from orderly.spark.jobs.replay.consumed import committed_on


def test_a_broker_that_left_the_route_is_not_taken_for_one_where_nothing_was_consumed(orderly_fake):
    topic = orderly_fake.create_topic("t", queues=1)
    with Client(namesrv=orderly_fake.namesrv) as client:
        assert committed_on(client, topic, brokers={"broker-a"}) == {}
        with pytest.raises(RouteError, match="'broker-b' has no master now"):
            committed_on(client, topic, brokers={"broker-b"})
