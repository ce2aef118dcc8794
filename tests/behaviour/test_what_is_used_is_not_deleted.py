"""`orderly group delete`, `topic delete`: refused while members or messages need it, then whole."""

import json

import pytest

from orderly import Ack, DeadLetter, Park
from orderly.monitoring.collecting.selection import dead_letter_topic
from orderly.ordering.topic_names import park_topic, state_topic
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

ANSWERS = {"bad": Park("no such account"), "dead": DeadLetter("not wanted")}


@pytest.fixture
def listed(orderly):
    """What `orderly group list` says of a group; None: it is not there."""

    def listed(group, *more):
        code, out, _ = orderly("group", "list", *more, "-o", "json")
        found = {each["group"]: each for each in json.loads(out)["groups"]}
        assert code == 0
        return found.get(group)

    return listed


def test_a_group_goes_with_all_that_is_its_own(
    client, producer, topic, group, start_group, orderly, listed
):
    members = start_group(
        lambda _, context: ANSWERS.get(context.key, Ack()), order="key", commit_interval=0.2
    )
    send_numbers(producer, topic, [*ANSWERS, "good"], 3)
    delete = ("group", "delete", group, "--yes")

    def used():
        return orderly("group", "delete", group, "--dry-run", "-o", "json")

    def what_is_in_the_way():
        code, out, _ = used()
        return json.loads(out)["uses"] if code == 0 else []

    kept = ["1 parked key with 3 messages", "3 dead letters"]
    eventually(lambda: what_is_in_the_way()[1:] == kept, within=60)
    assert listed(group)["order"] == "key"
    assert listed(group, group, "-t", topic)["topics"] == [topic]
    code, _, err = orderly(*delete)
    assert (code, "online, who would create it again" in err) == (3, True)
    members.close()
    eventually(lambda: what_is_in_the_way() == kept, within=60)
    code, _, err = orderly(*delete)
    assert (code, "; ".join(kept) in err) == (3, True)
    own = {state_topic(group, topic), park_topic(group, topic), dead_letter_topic(group)}
    assert own <= set(json.loads(used()[1])["deletes"]), "it says what goes"
    assert own <= set(client.admin.topics()), "nothing was deleted so far"

    assert orderly(*delete, "--force")[0] == 0
    eventually(lambda: listed(group) is None, within=60)
    assert not own & set(client.admin.topics())
    assert orderly(*delete)[0] == 3, "there is no such group"

    seen = []
    start_group(lambda messages, _: seen.extend(messages) or Ack(), consume_from="first")
    eventually(lambda: len(seen) == 9, within=60)  # it begins as a new one does


def test_a_topic_that_members_consume_is_refused(
    client, producer, topic, group, start_group, orderly
):
    members = start_group(lambda *_: Ack(), commit_interval=0.2)
    send_numbers(producer, topic, ["good"], 5)
    delete = ("topic", "delete", topic, "--yes")
    eventually(lambda: f"of {group}" in orderly(*delete)[2], within=60)
    code, out, _ = orderly("topic", "delete", topic, "--dry-run", "-o", "json")
    assert (code, json.loads(out)["messages"]) == (0, 5)
    assert client.routes.get(topic), "it is there"
    members.close()
    eventually(lambda: orderly(*delete)[0] == 0, within=60)
    eventually(lambda: topic not in client.admin.topics(), within=60)
    assert orderly(*delete)[0] == 3, "there is no such topic"


def test_what_is_not_a_users_is_refused(orderly):
    assert "RocketMQ's own" in orderly("topic", "delete", "TBW102", "--yes")[2]
    assert (
        "RocketMQ's own"
        in orderly("topic", "delete", "RMQ_SYS_TRANS_HALF_TOPIC", "--force", "-y")[2]
    )
