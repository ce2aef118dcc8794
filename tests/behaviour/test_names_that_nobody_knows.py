"""A group or topic that nobody knows is an error of every command: a slip is no "nothing there"."""

import pytest

from tests.support.waiting import eventually

OF_A_GROUP = [
    "backlog list GROUP",
    "backlog check GROUP",
    "backlog describe GROUP",
    "backlog explain GROUP",
    "dlq list GROUP",
    "dlq replay GROUP --yes",
    "doctor GROUP",
    "group delete GROUP --yes",
    "group list GROUP",
    "locks GROUP",
    "offsets show GROUP",
    "offsets reset GROUP TOPIC --to-earliest --dry-run",
    "parked list GROUP",
]
OF_A_TOPIC = [
    "backlog list -t TOPIC",
    "group list -t TOPIC",
    "placement TOPIC",
    "skew TOPIC",
    "tail TOPIC",
    "topic delete TOPIC --yes",
    "topic list TOPIC",
    "topic show TOPIC",
]


@pytest.mark.parametrize("words", OF_A_GROUP)
def test_a_group(words, topic, orderly):
    code, out, err = orderly(*words.replace("GROUP", "typo").replace("TOPIC", topic).split())
    assert code == 3, out
    assert "typo" in out + err


@pytest.mark.parametrize("words", OF_A_TOPIC)
def test_a_topic(words, orderly):
    code, out, err = orderly(*words.replace("TOPIC", "typo").split())
    assert code == 3, out
    assert "typo" in err


def test_a_group_that_is_there_and_has_nothing_is_none(group, start_member, orderly):
    """Only its members know it yet."""
    start_member()
    eventually(lambda: orderly("group", "list", group)[0] == 0)
    code, _, err = orderly("dlq", "list", group)
    assert (code, "has no dead letters" in err) == (0, True), err
