"""The names of state and park topics: each its own, and such that a broker accepts them."""

from hypothesis import example, given
from hypothesis import strategies as st

from orderly.config import check_topic
from orderly.namespace import unwrap, wrap
from orderly.ordering.topic_names import MOST_CHARACTERS, park_topic, state_topic

CHARACTERS = st.sampled_from("%|aZ0_-")
groups = st.text(CHARACTERS, min_size=1, max_size=120)
topics = st.text(CHARACTERS, min_size=1, max_size=127)
namespaces = st.text("abC_-", min_size=1, max_size=47)


def test_the_name_is_for_people_to_read_and_stays_as_it_is():
    # A change of this name loses every group's state at the next upgrade.
    assert state_topic("shipping", "orders") == "orderly-state-shipping-orders-a81c32138b344980"
    assert park_topic("shipping", "orders") == "orderly-park-shipping-orders-a81c32138b344980"
    assert state_topic("shop%shipping", "shop%orders").startswith(
        "shop%orderly-state-shipping-orders-"
    )
    assert "-shipping-bank%orders-" in state_topic("shop%shipping", "bank%orders")


@given(groups, topics)
@example("g" * 120, "t" * 127)
@example("n" * 100 + "%g", "n" * 100 + "%t")
@example("g" * 120, "t")
@example("g", "t" * 127)
def test_a_broker_accepts_every_name(group, topic):
    for name in (state_topic(group, topic), park_topic(group, topic)):
        assert len(check_topic(name)) <= MOST_CHARACTERS


@given(groups, topics, groups, topics)
@example("a-b", "c", "a", "b-c")
@example("g" * 120, "t" * 127, "g" * 120, "t" * 126)
@example("g" * 120, "t" * 127, "g" * 119, "t" * 127)
def test_no_two_pairs_share_a_name(group, topic, other_group, other_topic):
    same = (group, topic) == (other_group, other_topic)
    assert (state_topic(group, topic) == state_topic(other_group, other_topic)) is same
    assert (park_topic(group, topic) == park_topic(other_group, other_topic)) is same
    assert state_topic(group, topic) != park_topic(other_group, other_topic)


@given(namespaces, st.text("ab1", min_size=1, max_size=70), st.text("ab1", min_size=1, max_size=70))
def test_the_state_of_a_tenant_stays_in_its_namespace(namespace, group, topic):
    name = state_topic(wrap(namespace, group), wrap(namespace, topic))
    assert name.startswith(namespace + "%orderly-state-")
    assert unwrap(namespace, name) != name, "commands with this namespace list it"


def test_long_names_leave_each_other_room_to_be_recognised():
    assert state_topic("g" * 120, "orders").count("g") > 80
    assert state_topic("g", "t" * 127).count("t") > 80
    both = state_topic("g" * 120, "x" * 127)
    assert both.count("g") > 40
    assert both.count("x") > 40
