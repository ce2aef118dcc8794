"""Rebalance rounds against a cluster in memory: who is taken, kept, given up, and in what order."""

import threading

from orderly.consumer.renewal import LockKeeper
from orderly.protocol.heartbeat import Subscription
from tests.support.waiting import eventually

OTHER, ME_FIRST = "other@2", "me@1"


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
