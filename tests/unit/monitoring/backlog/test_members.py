"""What members tell, seen through whole scans: who has a queue, and what he cannot get done."""

from dataclasses import replace

import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.members import GroupMemory
from orderly.monitoring.backlog.reading import DeadLetters, GroupReading, Head, QueueRecord
from orderly.monitoring.backlog.states import QueueState
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import QueueInfo, QueueReport, RunningInfo, report_texts
from orderly.protocol.statistics import ConsumerConnection, ConsumerConnections
from tests.support.snapshots import AT, scan, topic_reading

Q0, Q1 = (MessageQueue("orders", "broker-a", n) for n in range(2))
ORDERS = Subscription("orders")


def online(*clients, topics=("orders",), model="CLUSTERING", kind="CONSUME_PASSIVELY"):
    return ConsumerConnections(
        tuple(ConsumerConnection(client, "10.0.0.1:1", "JAVA", 1) for client in clients),
        kind, model, "CONSUME_FROM_LAST_OFFSET", {t: Subscription(t) for t in topics},
    )  # fmt: skip


def java(queues, at=AT, **properties):
    """A Java member that pulled, locked and consumed a second ago, unless told otherwise."""
    well = {"locked": True, "last_lock_time": at - 1, "last_pull_time": at - 1}
    return RunningInfo(
        {"PROP_CONSUMEORDERLY": "true"} | properties,
        (ORDERS,),
        {
            queue: QueueInfo(**({"last_consume_time": at - 1} | well | fields))
            for queue, fields in queues.items()
        },
    )


def ours(queue, report, **properties):
    """A member of ours with one queue."""
    return RunningInfo(
        {"PROP_CONSUMEORDERLY": "true", "order": "queue"} | properties,
        (ORDERS,),
        {queue: QueueInfo(commit_offset=4, locked=True, last_lock_time=AT - 1)},
        user=report_texts([(queue, report)]),
    )


def reading(at=AT, connections=None, running=None, **fields):
    running = running or {}
    connections = online(*running) if connections is None else connections
    return GroupReading(
        "shipping", at, connections, running=running, running_at=at if running else 0.0, **fields
    )


def group_after(*readings, committed=(4, 4), spans=((0, 10), (0, 10)), step=30):
    backlog = Backlog()
    for n, found in enumerate(readings):
        snapshot = backlog.take(
            scan(
                AT + step * n,
                {"orders": list(spans)},
                {"shipping": {"orders": committed}},
                {"shipping": found},
            )
        )
    return snapshot.groups["shipping"]


def states_after(*readings, **fields):
    return [row.state for row in group_after(*readings, **fields).rows()]


# --- offline, broadcasting -----------------------------------------------------------------------


def test_a_backlog_without_members_is_offline():
    group = group_after(GroupReading("shipping", read_at=AT))
    assert group.sums.state is QueueState.OFFLINE
    assert group.members == ()


@pytest.mark.parametrize(
    "found",
    [
        GroupReading("shipping"),
        GroupReading("shipping", read_at=AT, errors={"broker-b": "no answer"}),
    ],
)
def test_members_that_are_not_known_are_not_away(found):
    group = group_after(found)
    assert group.sums.state is QueueState.OK
    assert group.members is None


def test_a_group_that_committed_since_it_was_asked_for_is_not_offline():
    backlog, away = Backlog(), {"shipping": GroupReading("shipping", read_at=AT)}
    states = []
    for n, committed in enumerate([(4, 4), (5, 4)]):
        snapshot = backlog.take(
            scan(AT + 15 * n, {"orders": [(0, 10)] * 2}, {"shipping": {"orders": committed}}, away)
        )
        states.append([row.state for row in snapshot.rows()])
    assert states == [[QueueState.OFFLINE] * 2, [QueueState.OK, QueueState.OFFLINE]]


def test_who_pulls_by_itself_may_consume_what_it_does_not_announce():
    group = group_after(reading(connections=online("a", topics=(), kind="CONSUME_ACTIVELY")))
    assert group.sums.backlog == 12
    assert group.findings == ()


def test_offsets_of_a_broadcasting_group_do_not_apply_and_are_never_lost_or_ahead():
    found = reading(connections=online("a", model="BROADCASTING"))
    group = group_after(found, committed=(4, 99), spans=((8, 10), (0, 10)))
    assert group.sums.states == {QueueState.NOT_APPLICABLE: 2}
    assert group.sums.backlog is None
    assert group.sums.lost == 0


def test_a_broadcasting_group_stays_one_while_it_is_away():
    found = reading(connections=online("a", model="BROADCASTING"))
    away = GroupReading("shipping", read_at=AT + 30)
    assert states_after(found, away) == [QueueState.NOT_APPLICABLE] * 2


def test_a_topic_no_longer_subscribed_to_does_not_apply_and_is_told():
    group = group_after(reading(connections=online("a", topics=("other",))))
    assert group.sums.states == {QueueState.NOT_APPLICABLE: 2}
    assert any("no longer subscribes" in text for text in group.findings)


# --- owners --------------------------------------------------------------------------------------


def test_owners_idle_members_and_order_are_told():
    running = {"a": java({Q0: {}, Q1: {}}), "b": java({})}
    group = group_after(reading(running=running))
    assert [row.owner for row in group.rows()] == ["a", "a"]
    assert group.idle == ("b",)
    assert (group.members, group.order, group.model) == (("a", "b"), "queue", "CLUSTERING")
    assert any("1 member without a queue (b)" in text for text in group.findings)


def test_owners_that_change_are_counted():
    group = group_after(
        reading(running={"a": java({Q0: {}, Q1: {}})}),
        reading(running={"b": java({Q0: {}, Q1: {}})}),
        reading(running={"b": java({Q0: {}})}),
        reading(running={"b": java({Q0: {}, Q1: {}})}),
    )
    assert group.owner_changes == 2


def test_owners_in_topics_no_longer_consumed_are_forgotten():
    memory = GroupMemory()
    other = replace(Q0, topic="bills")
    for queue in (Q0, other):
        running = {"a": replace(java({queue: {}}), subscriptions=(Subscription(queue.topic),))}
        found = reading(running=running, connections=online("a", topics=(queue.topic,)))
        memory.signs(AT, found, list, 60.0, 300.0)
    assert memory._owners == {other: "a"}


def test_two_owners_are_a_finding():
    running = {"a": java({Q0: {}, Q1: {}}), "b": java({Q0: {}})}
    group = group_after(reading(running=running))
    assert [text for text in group.findings if "claimed by a, b" in text]


def test_subscriptions_that_differ_are_a_finding():
    other = replace(java({Q1: {}}), subscriptions=(Subscription("orders", "paid"),))
    group = group_after(reading(running={"a": java({Q0: {}}), "b": other}))
    (finding,) = (text for text in group.findings if "subscribe to different" in text)
    assert "orders: '*' (a), 'paid' (b)" in finding
    assert [row.state for row in group.rows()] == [QueueState.MIXED] * 2
    assert "'paid' (b)" in next(group.rows()).cause


def tags(expression):
    return (Subscription.from_expression("orders", expression, 0),)


def test_the_same_tags_in_another_order_are_the_same_subscription():
    one = replace(java({Q0: {}}), subscriptions=tags("a || b"))
    same = replace(java({Q1: {}}), subscriptions=tags("b||a"))
    group = group_after(reading(running={"a": one, "b": same}))
    assert not group.findings
    assert [row.state for row in group.rows()] == [QueueState.OK] * 2


def test_who_pulls_by_itself_may_announce_what_it_likes():
    other = replace(java({Q1: {}}), subscriptions=tags("paid"))
    actively = online("a", "b", kind="CONSUME_ACTIVELY")
    group = group_after(reading(connections=actively, running={"a": java({Q0: {}}), "b": other}))
    assert QueueState.MIXED not in [row.state for row in group.rows()]


def test_a_filter_of_any_length_is_told_in_a_line():
    long = ["x" * 5000 + end for end in "ab"]
    running = {
        name: replace(java({}), subscriptions=tags(t)) for name, t in zip("ab", long, strict=True)
    }
    (finding,) = (t for t in group_after(reading(running=running)).findings if "differ" in t)
    assert finding.count("xxxx…") == 2, "and the two are not taken for one"


def two_topics(at=AT, **fields):
    """Two members that subscribe to a topic each; half of a topic's queues fall to the other."""
    other = replace(java({}, at), subscriptions=(Subscription("refunds"),))
    return reading(
        at, connections=online("a", "b"), running={"a": java({Q0: {}}, at), "b": other}, **fields
    )


def test_queues_that_fall_to_a_member_without_their_topic_are_orphans_in_one_look():
    ours, nobodys = group_after(two_topics(), committed=(4, -1)).rows()
    assert (ours.state, nobodys.state) == (QueueState.MIXED, QueueState.ORPHAN)
    assert (ours.backlog, nobodys.backlog) == (6, 10), "the group begins there at the minimum"
    assert "some members do not subscribe to its topic" in nobodys.cause
    assert "'*' (a), not subscribed (b)" in nobodys.cause


@pytest.mark.parametrize(
    ("committed", "spans", "state", "backlog"),
    [
        ((4, -1), ((0, 10), (0, 0)), QueueState.NEW, 0),
        ((-1, -1), ((0, 0), (0, 10)), QueueState.ORPHAN, None),
        ((4, 4), ((0, 10), (0, 10)), QueueState.ORPHAN, 6),
        ((4, 10), ((0, 10), (0, 10)), QueueState.MIXED, 0),
    ],
    ids=["empty", "group-is-new", "committed", "nothing-waits"],
)
def test_such_a_queue_is_an_orphan_if_messages_wait(committed, spans, state, backlog):
    _, nobodys = group_after(two_topics(), committed=committed, spans=spans).rows()
    assert (nobodys.state, nobodys.backlog) == (state, backlog)


def test_a_message_that_came_just_now_may_wait_for_a_hand_over():
    _, nobodys = group_after(two_topics(delays={Q1: 1.0}, delays_at=AT)).rows()
    assert nobodys.state is not QueueState.ORPHAN


def test_what_a_member_gives_up_at_the_moment_is_not_left_to_nobody():
    found = two_topics()
    other = replace(found.running["b"], queues={Q1: QueueInfo(dropped=True)})
    group = group_after(replace(found, running=found.running | {"b": other}), committed=(4, -1))
    assert [row.state for row in group.rows()] == [QueueState.MIXED, QueueState.NEW]


def test_a_queue_never_committed_that_nobody_has_is_an_orphan_after_two_rounds():
    looks = [lonely(AT + 30 * n) for n in range(3)]
    assert states_after(*looks[:1], committed=(4, -1))[1] is QueueState.NEW
    assert states_after(*looks, committed=(4, -1))[1] is QueueState.ORPHAN
    *_, nobodys = group_after(*looks, committed=(4, -1)).rows()
    assert nobodys.backlog == 10


@pytest.mark.parametrize(
    ("committed", "backlog"), [((4, -1), 10), ((-1, -1), None), ((4, 4), 6)],
    ids=["known", "new", "committed"],
)  # fmt: skip
@pytest.mark.parametrize("members", [("a",), ()], ids=["online", "offline"])
def test_messages_in_a_queue_that_is_not_readable_are_an_orphans(committed, backlog, members):
    topic = topic_reading("orders", [(0, 10), (0, 10)], unread=(1,))
    found = {"shipping": reading(running={name: java({Q0: {}}) for name in members})}
    given = {"shipping": {"orders": committed}}
    _, unread = Backlog().take(scan(AT, {"orders": topic}, given, found)).rows()
    offline = not members and backlog is not None
    assert unread.state is (QueueState.OFFLINE if offline else QueueState.ORPHAN)
    assert unread.backlog == backlog


def lonely(at, **fields):
    return reading(at, running={"a": java({Q0: {}}, at)}, **fields)


def test_a_queue_nobody_has_is_an_orphan_when_seen_for_two_rounds():
    looks = [lonely(AT + 30 * n) for n in range(3)]
    assert states_after(*looks[:1]) == [QueueState.OK, QueueState.UNLOCKED]
    assert states_after(*looks[:2]) == [QueueState.OK, QueueState.UNLOCKED]
    assert states_after(*looks) == [QueueState.OK, QueueState.ORPHAN]


def test_the_same_answer_looked_at_again_is_no_second_look():
    assert states_after(*[lonely(AT)] * 4) == [QueueState.OK, QueueState.UNLOCKED]


def test_after_a_kill_of_the_only_member_one_look_says_whose_its_queues_are():
    heir = reading(running={"heir": java({})}, delays={Q0: 11.0, Q1: 0.5}, delays_at=AT)
    group = group_after(heir)
    first, second = group.rows()
    assert (first.state, second.state) == (QueueState.UNLOCKED, QueueState.OK)
    assert "a dead member has, and its lock is free 60 s after the last renewal" in first.cause
    assert group.findings == ("1 member without a queue (heir): 2 queues without a member",)


def test_a_member_that_has_more_members_than_queues_is_told_so():
    group = group_after(reading(running={"a": java({Q0: {}, Q1: {}}), "b": java({})}))
    assert group.findings == ("1 member without a queue (b): more than it can use",)


def test_a_queue_that_is_being_given_up_is_not_nobodys():
    leaving = reading(running={"a": java({Q0: {}, Q1: {"dropped": True}})})
    assert states_after(leaving) == [QueueState.OK] * 2


def test_a_group_without_order_takes_no_locks():
    running = {"a": java({Q0: {}}, PROP_CONSUMEORDERLY="false")}
    assert states_after(reading(running=running)) == [QueueState.OK] * 2


def test_a_queue_that_was_committed_since_has_somebody():
    backlog = Backlog()
    for n, offset in enumerate((4, 5)):
        told = {"shipping": lonely(AT)}
        committed = {"shipping": {"orders": [4, offset]}}
        snapshot = backlog.take(scan(AT + 5 * n, {"orders": [(0, 10)] * 2}, committed, told))
    assert [row.state for row in snapshot.rows()] == [QueueState.OK] * 2


@pytest.mark.parametrize("kind", ["CONSUME_PASSIVELY", "CONSUME_POP", "CONSUME_ACTIVELY"])
def test_a_member_that_did_not_tell_may_have_the_queue(kind):
    silent = (
        online("a", "grpc", kind=kind) if kind == "CONSUME_PASSIVELY" else online("a", kind=kind)
    )
    looks = [lonely(AT + 30 * n, connections=silent) for n in range(4)]
    assert states_after(*looks) == [QueueState.OK] * 2


def test_members_that_pop_say_nothing_of_queues():
    def look(n):
        running = {"a": replace(java({}), pops=True)}
        return reading(AT + 30 * n, running=running)

    group = group_after(*map(look, range(4)))
    assert QueueState.ORPHAN not in group.sums.states
    assert group.idle is None


def test_a_look_in_which_somebody_kept_silent_is_no_look_at_orphans():
    looks = [lonely(AT), lonely(AT + 30, connections=online("a", "b")), lonely(AT + 60)]
    assert QueueState.ORPHAN not in states_after(*looks)


def test_a_queue_that_was_just_added_is_no_orphan_and_nobodys_only_once_members_were_asked():
    backlog, seen = Backlog(), []
    for at, told, queues in ((0, 0, 1), (55, 0, 2), (60, 60, 2)):
        committed = {"shipping": {"orders": [4] * queues}}
        found = {"shipping": lonely(AT + told)}
        snapshot = backlog.take(scan(AT + at, {"orders": [(0, 10)] * queues}, committed, found))
        seen.append([row.state.name for row in snapshot.rows()])
    assert seen == [["OK"], ["OK", "OK"], ["OK", "UNLOCKED"]]


# --- locks ---------------------------------------------------------------------------------------


def test_an_old_lock_is_none():
    running = {"a": java({Q0: {"last_lock_time": AT - 50}, Q1: {}})}
    assert states_after(reading(running=running)) == [QueueState.UNLOCKED, QueueState.OK]


def test_a_queue_just_taken_may_be_without_a_lock():
    running = {"a": java({Q0: {"locked": False, "last_lock_time": AT - 10}, Q1: {}})}
    assert states_after(reading(running=running)) == [QueueState.OK] * 2


def test_a_queue_never_locked_is_unlocked_after_two_rounds():
    looks = [
        reading(AT + 30 * n, running={"a": java({Q0: {"locked": False, "last_lock_time": 0.0}})})
        for n in range(3)
    ]
    assert states_after(*looks[:2])[0] is QueueState.OK
    assert states_after(*looks)[0] is QueueState.UNLOCKED


def test_a_lock_that_is_held_needs_no_age():
    """Go's client does not tell when it renewed one."""
    held = {"locked": True, "last_lock_time": 0.0}
    looks = [reading(AT + 30 * n, running={"a": java({Q0: held})}) for n in range(4)]
    assert QueueState.UNLOCKED not in states_after(*looks)


def test_a_consumer_without_order_needs_no_lock():
    loose = {"locked": False, "last_lock_time": AT - 500}
    running = {"a": java({Q0: loose, Q1: loose}, PROP_CONSUMEORDERLY="false")}
    group = group_after(reading(running=running))
    assert group.sums.states == {QueueState.OK: 2}
    assert group.order == "none"


@pytest.mark.parametrize("skew", [-3600.0, -90.0, 0.0, 90.0, 3600.0])
def test_a_member_s_clock_does_not_matter(skew):
    there = AT + skew
    running = {
        "a": java(
            {
                Q0: {"last_consume_time": there - 75, "in_hand_count": 1, "in_hand_min": 4,
                     "commit_offset": 4},
                Q1: {},
            },
            there,
        )
    }  # fmt: skip
    assert states_after(reading(running=running)) == [QueueState.BLOCKED, QueueState.OK]


# --- what they cannot get done -------------------------------------------------------------------

SUSPENDED = {"commit_offset": 4, "cached_min": 4, "cached_count": 3}


def test_a_java_handler_that_does_not_return_is_blocked_not_before_a_minute():
    def states(seconds):
        state = {"in_hand_count": 1, "in_hand_min": 4, "commit_offset": 4,
                 "last_consume_time": AT - seconds}  # fmt: skip
        return states_after(reading(running={"a": java({Q0: state, Q1: {}})}))

    assert states(59)[0] is QueueState.OK
    assert states(75)[0] is QueueState.BLOCKED


def test_a_java_queue_that_is_tried_again_is_suspended_from_the_second_scan_on():
    looks = [
        reading(AT + 30 * n, running={"a": java({Q0: SUSPENDED}, AT + 30 * n)}) for n in (0, 1)
    ]
    assert states_after(looks[0])[0] is QueueState.OK
    assert states_after(*looks)[0] is QueueState.SUSPENDED


def test_a_java_consumer_without_order_is_never_taken_for_suspended():
    """Its first message may be cached while later ones are handled beside it."""
    looks = [
        reading(
            AT + 30 * n,
            running={"a": java({Q0: SUSPENDED}, AT + 30 * n, PROP_CONSUMEORDERLY="false")},
        )
        for n in range(3)
    ]
    assert states_after(*looks)[0] is QueueState.OK


def test_a_java_queue_between_two_messages_is_not_suspended():
    ahead = SUSPENDED | {"commit_offset": 7, "cached_min": 7}
    looks = [reading(AT + 30 * n, running={"a": java({Q0: ahead}, AT + 30 * n)}) for n in range(3)]
    assert states_after(*looks)[0] is QueueState.OK


@pytest.mark.parametrize(
    ("report", "state"),
    [
        (QueueReport(why="HUNG", offset=4, attempts=1, seconds=20.0), QueueState.BLOCKED),
        (QueueReport(why="HANDLING", offset=4, attempts=1, seconds=61.0), QueueState.BLOCKED),
        (QueueReport(why="HANDLING", offset=4, attempts=1, seconds=5.0), QueueState.OK),
        (QueueReport(why="SUSPENDED", offset=4, attempts=2, failing_for=3.0), QueueState.SUSPENDED),
        (QueueReport(why="SUSPENDED", offset=3, attempts=2, failing_for=3.0), QueueState.OK),
        (QueueReport(why="HANDLING", offset=4, attempts=1), QueueState.OK),
    ],
)
def test_our_members_say_it_themselves(report, state):
    found = reading(running={"a": ours(Q0, report)})
    assert states_after(found)[0] is state


# --- a queue that is to move while its handler runs -----------------------------------------------


def leaving(why, seconds, **fields):
    """A member of ours that gives Q0 up."""
    member = ours(Q0, QueueReport(why=why, offset=6, seconds=seconds, **fields))
    return replace(member, queues={Q0: replace(member.queues[Q0], dropped=True)})


def looked_at(*readings):
    """The rows and the group."""
    status = group_after(*readings)
    return tuple(status.rows()), status


@pytest.mark.parametrize(
    "member",
    [
        leaving("LEAVING", 70.0),
        leaving("LOCK_LOST", 70.0),
        leaving("HUNG", 5.0),
        java({Q0: {"dropped": True, "last_consume_time": AT - 70, "in_hand_count": 1,
                   "in_hand_min": 4, "commit_offset": 4}}),
    ],
    ids=["leaving", "lock-lost", "hung", "java"],
)  # fmt: skip
def test_a_handler_that_does_not_return_blocks_a_queue_that_is_to_move(member):
    newcomer = java({Q1: {}})
    looks = [reading(AT + n * 30, running={"a": member, "b": newcomer}) for n in range(5)]
    (held, other), status = looked_at(*looks)
    assert (held.state, held.owner) == (QueueState.BLOCKED, "a"), "in the fifth look, too"
    assert "a: a handler has run for " in held.cause
    assert f"with offset {4 if member.properties.get('order') is None else 6}" in held.cause
    assert other.owner == "b"
    assert not status.findings
    assert status.owner_changes == 0


def test_a_newcomer_that_waits_for_such_a_queue_is_not_one_too_many():
    (held, _), status = looked_at(
        reading(running={"a": leaving("LEAVING", 9.0), "b": java({Q1: {}}), "c": java({})})
    )
    assert held.state is QueueState.OK, "a call that ends soon is no fault"
    (finding,) = status.findings
    assert "the former owner of 1 queue still runs a handler" in finding
    assert status.idle == ("c",)


def test_a_queue_that_is_to_move_is_nobodys_once_no_handler_runs():
    found = states_after(
        reading(running={"a": leaving("RELEASING", None), "b": java({Q1: {}})}),
        reading(AT + 60, running={"a": leaving("RELEASING", None), "b": java({Q1: {}})}),
    )
    assert found[0] is QueueState.ORPHAN


def test_the_new_owner_of_a_queue_counts_not_the_former_whose_handler_still_runs():
    former = leaving("LOCK_LOST", 90.0)
    (held, _), status = looked_at(reading(running={"a": former, "b": java({Q0: {}, Q1: {}})}))
    assert (held.state, held.owner) == (QueueState.OK, "b")
    assert not [text for text in status.findings if "claimed" in text], "a hand-over is no fault"


def test_the_former_owner_of_a_queue_counts_while_the_new_one_has_no_lock_of_it():
    refused = java({Q0: {"locked": False, "last_lock_time": 0.0}, Q1: {}})
    (held, _), _ = looked_at(reading(running={"a": leaving("LEAVING", 90.0), "b": refused}))
    assert (held.state, held.owner) == (QueueState.BLOCKED, "a")


def test_a_message_that_failed_and_whose_queue_is_to_move_is_not_said_to_be_tried_again():
    report = {"attempts": 5, "failing_for": 9.0, "fingerprint": "0123"}
    found = states_after(reading(running={"a": leaving("LEAVING", 9.0, **report)}))
    assert found[0] is QueueState.OK


def test_a_head_that_was_tried_often_is_suspended_without_running_info():
    head = Head(4, "k", "", AT, AT, 0, 10, attempts=3)
    assert states_after(reading(connections=online("a"), heads={Q0: head}))[0] is (
        QueueState.SUSPENDED
    )


def test_a_head_committed_beyond_is_not_shown():
    head = Head(3, "k", "", AT, AT, 0, 10)
    group = group_after(reading(connections=online("a"), heads={Q0: head}))
    assert next(group.rows()).head is None


def test_a_new_queue_tells_who_has_it():
    state = {"in_hand_count": 1, "in_hand_min": 0, "last_consume_time": AT - 75}
    found = reading(running={"a": java({Q0: state})})
    row = next(group_after(found, committed=(-1, 4)).rows())
    assert row.state is QueueState.NEW
    assert "stuck: a: a handler has run for 75 s" in row.cause


# --- order by key --------------------------------------------------------------------------------


def by_key(records):
    return reading(connections=online("a"), records=records)


def test_what_is_finished_ahead_is_no_backlog():
    group = group_after(by_key({Q0: QueueRecord(2, 4), Q1: QueueRecord(6, 4)}))
    assert [(row.span, row.backlog) for row in group.rows()] == [(6, 2), (6, 6)]
    assert group.sums.backlog == 8


def test_without_its_record_a_backlog_is_not_known_but_the_span_is():
    group = group_after(by_key({Q0: None, Q1: QueueRecord(6, 4)}))
    row = next(group.rows())
    assert (row.state, row.span, row.backlog) == (QueueState.UNKNOWN, 6, None)
    assert "state record" in row.cause
    assert group.sums.unknown == 1


def test_without_a_span_there_is_no_need_for_a_record():
    group = group_after(by_key({Q0: None, Q1: None}), committed=(10, 10))
    assert group.sums.states == {QueueState.OK: 2}
    assert group.sums.backlog == 0


# --- the rest ------------------------------------------------------------------------------------


def test_the_inflow_of_dead_letters_is_a_rate():
    looks = [
        reading(connections=online("a"), dead=DeadLetters(5 * n, None, 5 * n)) for n in range(3)
    ]
    group = group_after(*looks)
    assert group.dead_rate == pytest.approx(10 / 60)
    assert group.dead.messages == 10


def test_an_exact_delay_wins_over_the_curve_while_the_head_stays():
    told = reading(connections=online("a"), delays={Q0: 100.0}, delays_at=AT)
    group = group_after(told, told)
    assert next(group.rows()).head_age == pytest.approx(130.0)


def test_a_delay_of_a_head_since_committed_is_not_used():
    backlog = Backlog()
    told = reading(connections=online("a"), delays={Q0: 100.0}, delays_at=AT)
    for n, committed in enumerate((4, 6)):
        found = backlog.take(
            scan(AT + 30 * n, {"orders": [(0, 10)]}, {"shipping": {"orders": [committed]}},
                 {"shipping": told})
        )  # fmt: skip
    (row,) = found.rows()
    assert row.head_age == pytest.approx(93.6, abs=0.1)  # between 100 s before and the first look


# --- a member that cannot pull --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            QueueReport(why="PULL_FAILS", seconds=30.0, reason="not permitted"),
            "me cannot pull it (for 30 s): not permitted",
        ),
        (
            QueueReport(why="TOO_LARGE", reason="larger than max_frame"),
            "me cannot pull its next message: larger than max_frame",
        ),
        (
            QueueReport(why="NO_KEY", reason="KeyError"),
            "me has a key function that fails for its next message: KeyError",
        ),
    ],
)
@pytest.mark.parametrize("committed", [(4, 4), (10, 10)])
def test_what_its_owner_cannot_pull_nobody_reads(report, words, committed):
    found = reading(running={"me": ours(Q0, report)})
    row, _ = group_after(found, committed=committed).rows()
    assert (row.state, row.cause) == (QueueState.ORPHAN, words)


@pytest.mark.parametrize(
    "report",
    [
        QueueReport(why="PULL_FAILS", seconds=29.0, reason="connection refused"),
        QueueReport(why="NOT_PULLING"),
        QueueReport(why="SUSPENDED", seconds=60.0),
    ],
)
def test_a_pull_that_failed_just_now_is_tried_again(report):
    found = reading(running={"me": ours(Q0, report)})
    assert states_after(found)[0] is QueueState.OK


def test_brokers_that_bar_a_group_bar_it_at_once():
    found = reading(running={"me": ours(Q0, QueueReport(why="EMPTY"))})
    backlog, states = Backlog(), []
    for n, barred in enumerate([frozenset(), frozenset({"shipping"}), frozenset()]):
        one = scan(
            AT + 15 * n,
            {"orders": [(0, 10)] * 2},
            {"shipping": {"orders": (4, 4)}},
            {"shipping": found},
        )
        brokers = {name: replace(it, barred=barred) for name, it in one.brokers.items()}
        row, _ = backlog.take(replace(one, brokers=brokers)).rows()
        states.append(row.state)
    assert states == [QueueState.OK, QueueState.ORPHAN, QueueState.OK]


def test_a_broker_that_serves_no_reads_and_a_topic_that_allows_none_close_it():
    backlog, causes = Backlog(), []
    for n, (serves, closed) in enumerate([(True, ()), (False, ()), (True, ("broker-a",))]):
        one = scan(AT + 15 * n, {"orders": [(0, 10)] * 2}, {"shipping": {"orders": (4, 4)}}, {})
        brokers = {name: replace(it, serves_reads=serves) for name, it in one.brokers.items()}
        topics = {"orders": replace(one.topics["orders"], closed=frozenset(closed))}
        rows = backlog.take(replace(one, brokers=brokers, topics=topics)).rows()
        causes.append([row.cause for row in rows])
    assert causes == [
        ["", ""],
        ["nobody reads it: broker broker-a lets nobody read (brokerPermission)"] * 2,
        ["nobody reads it: topic orders may not be read on broker broker-a (its permission)"] * 2,
    ]
