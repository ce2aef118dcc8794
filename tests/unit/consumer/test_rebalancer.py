"""Rebalance rounds against a cluster in memory: who is taken, kept, given up, and in what order."""

import threading

from orderly.clock import now
from orderly.consumer.introspection import ConsumerInspector
from orderly.consumer.renewal import LockKeeper
from orderly.errors import TopicNotFound
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import message
from tests.support.waiting import eventually

OTHER, ME_FIRST = "other@2", "me@1"


def nothing_here(events):
    """The events that say that this member has no queue of a topic."""
    names = ("member.idle", "topic.not_readable")
    return [event["event"] for event in events if event["event"] in names]


def held_ids(session):
    return [held.queue.queue_id for held in session.held() if held.owned.dropped is None]


def test_alone_it_takes_all_queues_with_one_lock_request(rebalancer, session, cluster, pulling):
    rebalancer.round()
    assert held_ids(session) == pulling == [0, 1, 2, 3]
    assert cluster.calls.count(("lock", "broker-a")) == 1


def test_brokers_are_told_of_changes_before_anything_is_handled(rebalancer, session, cluster):
    session.subscriptions = {"orders": Subscription("orders"), "bills": Subscription("bills")}
    rebalancer.round()
    told = [call[0] for call in cluster.calls if call[0] in ("heartbeat", "lock")]
    assert told == ["heartbeat", "lock", "lock"]
    cluster.members = [ME_FIRST, OTHER]
    cluster.calls.clear()
    rebalancer.round()
    assert cluster.calls.count(("heartbeat",)) == 1


def test_a_share_that_stays_is_no_change(rebalancer, session, cluster):
    refused, *_ = cluster.route("orders").read_queues()
    cluster.locks[refused] = OTHER
    rebalancer.round()
    del cluster.locks[refused]
    cluster.calls.clear()
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3]
    assert ("heartbeat",) not in cluster.calls


def test_a_settled_round_asks_for_no_other(rebalancer, again):
    rebalancer.round()
    rebalancer.round()
    assert again == []


def test_a_refused_queue_is_tried_again_soon_and_the_others_start(
    rebalancer, session, cluster, again
):
    session_queues = cluster.route("orders").read_queues()
    cluster.locks[session_queues[2]] = OTHER
    rebalancer.round()
    assert held_ids(session) == [0, 1, 3]
    assert again == [0.5]
    del cluster.locks[session_queues[2]]
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3]


def test_without_a_certain_start_there_is_no_pull(rebalancer, session, cluster, pulling, failure):
    bad = cluster.route("orders").read_queues()[1]
    cluster.fail["query", bad] = failure
    rebalancer.round()
    assert held_ids(session) == pulling == [0, 2, 3]
    assert bad not in cluster.locks, "a queue that is not pulled must not stay locked"
    cluster.fail.clear()
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3]


def test_no_answer_about_members_keeps_the_assignment(rebalancer, session, cluster, failure):
    rebalancer.round()
    cluster.fail["members"] = failure
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3]


def test_a_member_list_without_us_keeps_the_assignment(rebalancer, session, cluster):
    rebalancer.round()
    cluster.members = [OTHER]
    rebalancer.round()
    cluster.members = []
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3]


def test_one_topics_failure_does_not_stop_the_others(rebalancer, session, cluster, failure):
    session.subscriptions = {
        "broken": Subscription("broken"),
        "orders": Subscription("orders"),
    }
    cluster.fail["route", "broken"] = failure
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3]


def test_a_renewal_never_takes_back_what_was_just_given_up(rebalancer, session, cluster, again):
    rebalancer.round()
    keeper = LockKeeper(session)
    cluster.during["unlock"] = lambda: threading.Thread(target=keeper.renew_all).start()
    cluster.members = [ME_FIRST, OTHER]
    rebalancer.round()
    with session.locking("broker-a"):
        pass
    eventually(lambda: not renewing())
    assert sorted(queue.queue_id for queue in cluster.locks) == [0, 1]


def renewing():
    return any("renew_all" in thread.name for thread in threading.enumerate())


# --- a member whose engine does not run -----------------------------------------------------------


def test_who_cannot_handle_anything_gives_its_queues_up_and_leaves(
    rebalancer, session, cluster, membership, again
):
    rebalancer.round()
    assert len(session.held()) == 4
    session.standing = True
    rebalancer.round()
    assert session.held() == []
    assert cluster.locks == {}
    assert not membership.joined
    assert again == [], "nothing is left to do"
    rebalancer.round()
    assert session.held() == []


def test_a_queue_whose_handler_runs_stays_locked_until_it_ends(
    rebalancer, session, cluster, membership, again
):
    rebalancer.round()
    held = session.held()[0]
    held.owned.pull_gate(now())
    held.owned.pulled([message(0, queue=held.queue)], 1)
    batch = held.owned.take(1, now())
    session.standing = True
    rebalancer.round()
    assert session.held() == [held]
    assert set(cluster.locks) == {held.queue}
    assert not membership.joined
    assert again, "it looks again soon"
    held.owned.finish(batch, Disposition.COMMIT, now())
    rebalancer.round()
    assert session.held() == []
    assert cluster.locks == {}
    assert cluster.offsets[held.queue] == 1, "its result counts"


def test_who_runs_again_joins_and_takes_its_queues(rebalancer, session, cluster, membership):
    rebalancer.round()
    session.standing = True
    rebalancer.round()
    session.standing = False
    rebalancer.round()
    assert membership.joined
    assert len(session.held()) == 4
    assert len(cluster.locks) == 4


# --- topics of which a member has nothing ---------------------------------------------------------


def test_a_topic_that_nobody_may_read_is_an_error_and_no_idle_member(
    rebalancer, session, cluster, events
):
    readable, cluster.queues = cluster.queues, 0
    for _ in range(3):
        rebalancer.round()
    assert nothing_here(events) == ["topic.not_readable"]
    health = ConsumerInspector(session).health("running")
    assert not health.ready
    assert "no queue of topic orders may be read" in health.reasons[0]
    cluster.queues = readable
    rebalancer.round()
    cluster.queues = 0
    rebalancer.round()
    assert nothing_here(events) == ["topic.not_readable"] * 2, "it was read meanwhile"


def test_more_members_than_queues_is_a_good_reason_to_have_none(
    rebalancer, session, cluster, events
):
    cluster.members = ["a", "b", "c", "d", ME_FIRST]
    rebalancer.round()
    assert nothing_here(events) == ["member.idle"]
    assert ConsumerInspector(session).health("running").ready


def test_a_round_that_has_never_succeeded_says_why(rebalancer, session, cluster, failure):
    cluster.fail["members"] = failure
    rebalancer.round()
    (reason,) = ConsumerInspector(session).health("running").reasons
    assert reason == "topic orders: no rebalance round has succeeded yet: made by the test"
    del cluster.fail["members"]
    rebalancer.round()
    assert session.unseen == {}


def test_a_topic_that_was_deleted_is_no_reason_to_be_idle(rebalancer, session, cluster):
    cluster.members = ["a", "b", "c", "d", ME_FIRST]
    rebalancer.round()
    cluster.fail["route"] = TopicNotFound("there is no topic orders")
    rebalancer.round()
    health = ConsumerInspector(session).health("running")
    assert (health.ready, health.reasons) == (False, ("there is no topic orders",))
