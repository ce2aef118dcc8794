"""What a proxy in cluster mode (5.5.0) takes away: the tests that cannot hold there, and why.

With ORDERLY_TEST_EXCUSED set they, and only they, are run with --orderly-broker=proxy, and must
fail. What follows for users is in docs/how-to/proxy.md.
"""

NO_SETTINGS = "a proxy shows no settings of groups and topics, so a start cannot go by them"
NO_QUESTIONS = "brokers do not know a proxy's members, and relay no question to them"
TYPES = "the proxy refuses it at the send, with code 13 (tests/integration/test_proxy.py)"
NO_FILTERS = "the proxy says yes to any filter; the broker refuses each pull"
OLD_ROUTES = "a proxy answers with the route it had 20 s ago, or longer if nobody asked meanwhile"
NO_TOPICS = "a proxy makes and deletes no topics: an operator does, and then it goes on"

EXCUSED = {
    "test_clear_errors_at_the_start.py::test_a_group_that_may_not_consume": NO_SETTINGS,
    "test_clear_errors_at_the_start.py::test_a_group_that_may_not_broadcast": NO_SETTINGS,
    "test_clear_errors_at_the_start.py::test_members_that_keep_order_in_another_way": NO_QUESTIONS,
    "test_an_operator_parks_a_key_that_blocks.py::test_without_an_owner_by_key": NO_QUESTIONS,
    "test_message_types.py::test_a_keyed_message_goes_to_no_topic_without_order": TYPES,
    "test_message_types.py::test_a_fifo_topic_takes_keyed_messages_and_only_ordered": NO_SETTINGS,
    "test_what_others_wrote_leaks_nowhere.py": NO_QUESTIONS,
    "test_sql_filter.py::test_a_condition_nobody_understands_is_refused": NO_FILTERS,
    "test_sql_filter.py::test_a_broker_that_filters_by_tags_only_is_named": NO_FILTERS,
    "test_a_topic_grows_in_order.py::test_a_producer_that_does_not_know_of_it": OLD_ROUTES,
    "test_queue_count_changes.py::test_a_later_queue_is_consumed_from_its_first": OLD_ROUTES,
    "test_several_topics.py::test_a_deleted_topic_does_not*by_the_program": NO_TOPICS,
    "test_what_is_used_is_not_deleted.py::test_a_group_goes_with_all_that_is": NO_QUESTIONS,
    "test_a_state_topic_that_was_deleted_is_made_again.py::test_commits_go_on": NO_TOPICS,
}


def reason_for(nodeid):
    """Why a test is excused; None: it is not."""
    return next((why for name, why in EXCUSED.items() if _named(name, nodeid)), None)


def _named(name, nodeid):
    """Whether a test's id begins so; behind a `*` is what its parameters must have."""
    start, _, parameter = name.partition("*")
    return f"/{start}" in nodeid and parameter in nodeid
