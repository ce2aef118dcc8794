"""Names as long as an answer may be, which would fill every log line and table that has them."""

import pytest

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.body import MAX_NAME
from orderly.protocol.groups import (
    GroupConfig,
    decode_group_configs,
    decode_group_list,
    decode_groups_of_topic,
    encode_group_configs,
    encode_groups_of_topic,
)
from orderly.protocol.locks import decode_locked
from orderly.protocol.offsets import encode_committed, read_committed
from orderly.protocol.route import decode_cluster_info, decode_route
from orderly.protocol.statistics import TopicOffset, decode_topic_stats, encode_topic_stats
from orderly.protocol.topics import (
    TopicConfig,
    decode_topic_configs,
    decode_topic_list,
    encode_topic_configs,
    encode_topic_list,
)

LONG = "n" * (1 << 20)
NAMES = ("orders", LONG)
GROUPS = encode_group_configs([GroupConfig(name=name) for name in NAMES], {"counter": 1})
TOPICS = encode_topic_configs(
    [TopicConfig(name=name, read_queues=1, write_queues=1) for name in NAMES], {"counter": 1}
)
LISTS = {
    "topics": (decode_topic_list, encode_topic_list(NAMES)),
    "groups of a topic": (decode_groups_of_topic, encode_groups_of_topic(NAMES)),
    "groups": (decode_group_list, GROUPS),
    "settings of groups": (lambda body: decode_group_configs(body).groups, GROUPS),
    "settings of topics": (lambda body: decode_topic_configs(body).topics, TOPICS),
}


@pytest.mark.parametrize(("decode", "body"), LISTS.values(), ids=LISTS)
def test_of_listed_names_those_that_no_broker_has_are_left_out(decode, body):
    assert list(decode(body)) == ["orders"]


@pytest.mark.parametrize("searched", [True, False])
@pytest.mark.parametrize("groups", [None, {"g", "G" * MAX_NAME, LONG}], ids=["all", "three"])
def test_so_are_those_with_committed_offsets(groups, searched):
    ours = {("g", "t"): {0: 1}, ("G" * MAX_NAME, "t"): {0: 2}}
    body = encode_committed(ours | {(LONG, "t"): {0: 3}, ("g", LONG): {0: 4}})
    if not searched:  # text with an escape is read as JSON
        body = body.replace(b"t@g", b"\\u0074@g", 1)
    assert read_committed(body, groups) == ours


ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{"0":"%s"},"brokerName":"%s","cluster":"%s"}],'
    '"queueDatas":[{"brokerName":"%s","perm":6,"readQueueNums":8,"writeQueueNums":4}]}'
)
CLUSTERS = (
    '{"brokerAddrTable":{"%s":{"brokerAddrs":{},"brokerName":"b","cluster":"c"}}}',
    '{"brokerAddrTable":{"b":{"brokerAddrs":{},"brokerName":"%s","cluster":"c"}}}',
    '{"clusterAddrTable":{"%s":["b"]}}',
    '{"clusterAddrTable":{"c":["%s"]}}',
)
LOCKED = '{"lockOKMQSet":[{"brokerName":"%s","queueId":1,"topic":"t"}]}'
STATS = encode_topic_stats({MessageQueue("t", LONG, 0): TopicOffset()})
BODIES = [
    *(
        (lambda body: decode_route("t", body), ROUTE % tuple(at[each] for each in range(4)))
        for at in ({**dict.fromkeys(range(4), "a:1"), long: LONG} for long in range(4))
    ),
    *((decode_cluster_info, text % LONG) for text in CLUSTERS),
    (decode_locked, LOCKED % LONG),
    (decode_topic_stats, STATS.decode()),
    (decode_topic_stats, STATS.decode().replace('"topicPutTps":', '"topicPutTps": ')),
]


@pytest.mark.parametrize(("decode", "body"), BODIES)
def test_a_name_or_an_address_that_no_broker_has_is_refused_and_not_quoted(decode, body):
    decode(body.replace(LONG, "b").encode())
    with pytest.raises(ProtocolError) as raised:
        decode(body.encode())
    assert len(str(raised.value)) < 1000
