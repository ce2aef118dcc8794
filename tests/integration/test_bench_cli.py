"""`orderly bench` on a real broker: figures that agree with it, and nothing left behind."""

import json

import pytest

from orderly.protocol.groups import GroupConfig


@pytest.mark.parametrize(
    "args",
    [
        ("-n", "3000"),
        ("--rate", "500", "-n", "500", "--sync"),
        ("-n", "1000", "--order", "key", "--async", "--handler-ms", "1"),
    ],
)
def test_it_measures_and_takes_all_away(orderly, client, args):
    code, out, err = orderly("bench", *args, "-o", "json")
    assert code == 0, err
    found = json.loads(out)
    assert found["left_behind"] == []
    consumed = found["consume"]
    assert (consumed["out_of_order"], consumed["missing"]) == (0, 0)
    assert consumed["messages"] - consumed["repeats"] == found["send"]["messages"]
    names = (*client.admin.topics(), *client.admin.groups())
    assert [name for name in names if found["name"] in name] == []


def test_a_topic_and_a_group_are_deleted_for_good(client, group, topic):
    client.housekeeping.put_group(GroupConfig(name=group, orderly=True))
    assert group in client.admin.groups()
    client.housekeeping.delete_group(group)
    client.housekeeping.delete_group(group)
    assert group not in client.admin.groups()
    client.housekeeping.delete_topic(topic)
    client.housekeeping.delete_topic(topic)
    assert topic not in client.admin.topics()
