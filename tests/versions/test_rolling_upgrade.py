"""A cluster is upgraded from 5.3.3 under traffic, one server after another: nothing is lost."""

import os

import pytest

from orderly import Client
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.testing import EmbeddedCluster
from tests.support.brokers import SHORT, place
from tests.support.consuming import unique
from tests.support.traffic import Traffic
from tests.support.waiting import eventually
from tests.versions.__main__ import jars_of

FROM = "5.3.3"
TO = os.environ.get("ORDERLY_TEST_RELEASE", "5.5.0")
LEASE = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={round(SHORT * 1000)}"


def version(cluster, broker):
    """What a broker says it is, "V5_3_3"; one that has just begun fails at that for a moment."""
    command = request(RequestCode.GET_BROKER_RUNTIME_INFO)
    with Client(namesrv=cluster.namesrv) as client:
        connection = client.connections.get(broker.address)
        reply = eventually(lambda: (it := connection.call(command, 10)).code == 0 and it)
    return reply.body.decode().partition('"brokerVersionDesc":"')[2].partition('"')[0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ["queue", "key"])
def test_nothing_is_lost_or_reordered(closing, order):
    cluster = closing(EmbeddedCluster(java_options=[LEASE], jars=jars_of(FROM)))
    topic = unique("topic")
    with Client(namesrv=cluster.namesrv) as client:
        client.admin.create_topic(topic, 4)
    traffic = closing(
        Traffic(
            None, cluster.namesrv, SHORT, unique("group"), topic,
            place=place, pause=0.003, order=order,
        )
    )  # fmt: skip
    seen = [[version(cluster, broker) for broker in cluster.brokers]]
    traffic.goes_on(300, within=90)
    cluster.restart_namesrv(jars_of(TO))
    for broker in cluster.brokers:
        traffic.goes_on(300, within=90)
        broker.restart(jars_of(TO))
        seen.append([version(cluster, each) for each in cluster.brokers])
    traffic.goes_on(1000, within=90)
    traffic.finish(within=90)
    verdict = traffic.judged()
    old, new = (f"V{text.replace('.', '_')}" for text in (FROM, TO))
    assert seen == [[old, old], [new, old], [new, new]]
    assert (verdict.lost, verdict.disorder, verdict.unknown) == (0, 0, 0), verdict
