"""Rebalance rounds against a cluster in memory: who is taken, kept, given up, and in what order."""

import math
import threading

from orderly.consumer.owning.lock_keeper import LockKeeper
from orderly.consumer.owning.offset_saver import OffsetSaver
from orderly.errors import BrokerError
from orderly.ordering.drop import Drop
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import message
from tests.support.waiting import eventually

OTHER, ME_FIRST = "other@2", "me@1"


def held_ids(session):
    return [held.queue.queue_id for held in session.held() if held.owned.dropped is None]


def busy(session, queue_id=0):
    """Give a held queue one message and a handler that runs on it; returns (held, batch)."""
    held = next(h for h in session.held() if h.queue.queue_id == queue_id)
    held.owned.pull_gate(held.owned.lease.renewed_at)
    held.owned.pulled([message(0, queue=held.queue)], 1)
    return held, held.owned.take(1, held.owned.lease.renewed_at)


def finish(held, batch):
    held.owned.finish(batch, Disposition.COMMIT, held.owned.lease.renewed_at)


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


def test_a_second_member_gets_its_share_saved_then_unlocked(rebalancer, session, cluster):
    rebalancer.round()
    held, batch = busy(session, 3)
    finish(held, batch)
    cluster.members = [ME_FIRST, OTHER]
    cluster.calls.clear()
    rebalancer.round()
    assert held_ids(session) == [0, 1]
    assert cluster.calls.index(("save", held.queue)) < cluster.calls.index(("unlock", held.queue))
    assert cluster.offsets[held.queue] == 1


def test_a_queue_whose_handler_runs_stays_locked_and_is_renewed(
    rebalancer, session, cluster, again
):
    rebalancer.round()
    held, batch = busy(session, 3)
    cluster.members = [ME_FIRST, OTHER]
    rebalancer.round()
    assert held in session.held()
    assert held.owned.dropped is Drop.REVOKED
    assert cluster.locks[held.queue] == ME_FIRST
    LockKeeper(session).renew_all()
    assert held.owned.dropped is Drop.REVOKED
    finish(held, batch)
    rebalancer.round()
    assert held not in session.held()
    assert held.queue not in cluster.locks
    assert cluster.offsets[held.queue] == 1


def test_a_failed_save_keeps_the_lock_until_it_succeeds(
    rebalancer, session, cluster, failure, again
):
    rebalancer.round()
    held, batch = busy(session, 3)
    finish(held, batch)
    cluster.members = [ME_FIRST, OTHER]
    cluster.fail["save", held.queue] = failure
    rebalancer.round()
    assert cluster.locks[held.queue] == ME_FIRST
    assert again
    cluster.fail.clear()
    rebalancer.round()
    assert held.queue not in cluster.locks
    assert cluster.offsets[held.queue] == 1


def test_a_refused_save_does_not_hold_the_lock_for_ever(rebalancer, session, cluster):
    rebalancer.round()
    held, batch = busy(session, 3)
    finish(held, batch)
    cluster.members = [ME_FIRST, OTHER]
    cluster.fail["save", held.queue] = BrokerError("no such topic", code=17)
    rebalancer.round()
    assert held.queue not in cluster.locks


def test_a_lost_lock_is_neither_saved_nor_unlocked_and_is_asked_for_again(
    rebalancer, session, cluster, again
):
    rebalancer.round()
    held, batch = busy(session, 0)
    finish(held, batch)
    cluster.locks[held.queue] = OTHER
    LockKeeper(session).renew_all()
    assert held.owned.dropped is Drop.LOST
    cluster.calls.clear()
    rebalancer.round()
    assert not {("save", held.queue), ("unlock", held.queue)} & set(cluster.calls)
    assert held_ids(session) == [1, 2, 3]
    cluster.locks[held.queue] = ME_FIRST
    cluster.offsets[held.queue] = 7
    rebalancer.round()
    again = next(h for h in session.held() if h.queue == held.queue)
    assert again is not held
    assert again.owned.next_pull == 7


def test_a_lock_request_that_fails_changes_nothing_and_is_repeated_soon(
    rebalancer, session, cluster, failure, again
):
    rebalancer.round()
    cluster.fail["lock"] = failure
    session.renew_again = again.append
    LockKeeper(session).renew_all()
    assert held_ids(session) == [0, 1, 2, 3]
    assert again == [2.0]


def test_an_unsubscribed_topic_is_released(rebalancer, session, cluster):
    rebalancer.round()
    session.subscriptions = {}
    rebalancer.round()
    assert session.held() == []
    assert cluster.locks == {}


def test_more_queues_are_taken_when_the_topic_grows(rebalancer, session, cluster):
    rebalancer.round()
    cluster.queues = 6
    rebalancer.round()
    assert held_ids(session) == [0, 1, 2, 3, 4, 5]
    cluster.queues = 2
    rebalancer.round()
    assert held_ids(session) == [0, 1]


def test_nothing_is_saved_after_the_unlock(rebalancer, session, cluster):
    rebalancer.round()
    held, batch = busy(session, 3)
    finish(held, batch)
    cluster.members = [ME_FIRST, OTHER]
    rebalancer.round()
    cluster.calls.clear()
    held.owned.offset = 99
    OffsetSaver(session)._save_of_broker([held], math.inf)  # had its list before the unlock
    assert cluster.calls == []


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


def test_changed_tags_drop_the_queue_and_take_it_again(rebalancer, session, again):
    rebalancer.round()
    before = session.held()
    session.subscriptions = {"orders": Subscription.from_expression("orders", "B", 2)}
    rebalancer.round()
    after = session.held()
    assert held_ids(session) == [0, 1, 2, 3]
    assert not set(before) & set(after)
    assert {held.subscription.expression for held in after} == {"B"}
