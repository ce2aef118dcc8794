"""The order of the rules: of every two that both apply, the first gives the state."""

from dataclasses import replace
from itertools import combinations

import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.history import OffsetHistory, Track
from orderly.monitoring.backlog.members import GroupObservation, QueueTrouble
from orderly.monitoring.backlog.reading import (
    NEVER,
    NOT_READ,
    GroupReading,
    QueueRecord,
    Recreation,
)
from orderly.monitoring.backlog.rules import (
    RULES,
    EvaluationSettings,
    GroupTopic,
    Now,
    Topic,
    codes_of,
    state_and_cause,
)
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict
from orderly.monitoring.backlog.thresholds import Thresholds
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, topic_reading

QUEUE = MessageQueue("orders", "broker-a", 0)


def healthy():
    """One queue with a backlog of 6 that nothing is wrong with."""
    reading = topic_reading("orders", [(0, 10)])
    topic = Topic(reading, [OffsetHistory()], [0.0], 600.0, [None], None, same=False, whole=True)
    signs = GroupObservation(GroupReading("shipping", read_at=AT, running_at=AT), ("client-1",))
    settings = EvaluationSettings(thresholds=Thresholds({}))
    track = Track(1)
    track.offset[0], track.backlog[0] = 4, 6
    track.moved_at[0] = track.eased_at[0] = AT
    now = Now(AT, AT - 15, AT - 120, AT - 60, settings)
    return GroupTopic("shipping", topic, signs, now, (4,), [0.0], 600.0, track, [6])


def unknown(pair):
    pair.topic.reading = replace(pair.topic.reading, maximum=(NOT_READ,))
    pair.backlog = [None]


def not_applicable(pair):
    pair.signs.model = "BROADCASTING"
    pair.backlog = [None]


def mixed(pair):
    pair.signs.mixed = {"orders": "'*' (a), 'x' (b)"}


def recreated(pair, **found):
    found = Recreation(9, **({"at": AT} | found))
    pair.signs.reading = replace(pair.signs.reading, recreated={QUEUE: found})


def new(pair):
    pair.committed, pair.backlog = (NEVER,), [None]


def lost(pair):
    pair.topic.reading = replace(pair.topic.reading, minimum=(7,))


def ahead(pair):
    pair.committed, pair.backlog = (11,), [None]


def offline(pair):
    pair.signs.offline = True


def orphan(pair):
    pair.signs.orphans = {QUEUE: AT - 60}


def unlocked(pair):
    pair.signs.unlocked = {QUEUE: "no lock"}


def blocked(pair):
    pair.signs.blocked = {QUEUE: QueueTrouble(4, "runs")}


def expiring(pair):
    pair.topic.retention = [7200.0]
    pair.track.head_at[0] = AT - 3600.0


def suspended(pair):
    pair.signs.suspended = {QUEUE: QueueTrouble(4, "fails")}


def rewind(pair):
    pair.track.rewinds[0] = (9, AT)


def stall(pair):
    pair.track.moved_at[0] = pair.track.eased_at[0] = AT - 120


def growing(pair):
    pair.track.eased_at[0], pair.track.grew_at[0] = AT - 120, AT


def lagging(pair):
    limits = Thresholds.parse({"backlog": "3"}, {})
    pair.now = replace(pair.now, settings=EvaluationSettings(thresholds=limits))


RECIPES = {
    QueueState.UNKNOWN: unknown,
    QueueState.NOT_APPLICABLE: not_applicable,
    QueueState.LOST: lost,
    QueueState.OFFLINE: offline,
    QueueState.ORPHAN: orphan,
    QueueState.BLOCKED: blocked,
    QueueState.EXPIRING: expiring,
    QueueState.STALL: stall,
    QueueState.NEW: new,
    QueueState.MIXED: mixed,
    QueueState.RECREATED: recreated,
    QueueState.AHEAD: ahead,
    QueueState.UNLOCKED: unlocked,
    QueueState.SUSPENDED: suspended,
    QueueState.REWIND: rewind,
    QueueState.GROWING: growing,
    QueueState.LAGGING: lagging,
}
# What cannot be at once: a queue has one committed offset, and no backlog without it; and that of
# a former topic says neither that the group never committed nor that something was deleted.
NEEDS_BACKLOG = {
    QueueState.OFFLINE, QueueState.BLOCKED, QueueState.EXPIRING, QueueState.SUSPENDED,
    QueueState.LAGGING,
}  # fmt: skip
WITHOUT = {QueueState.UNKNOWN, QueueState.NOT_APPLICABLE, QueueState.NEW, QueueState.AHEAD}
EXCLUDE = (
    {frozenset((a, b)) for a in NEEDS_BACKLOG for b in WITHOUT}
    | {frozenset((a, b)) for a in (QueueState.STALL, QueueState.GROWING) for b in WITHOUT}
    | {
        frozenset((QueueState.NEW, QueueState.AHEAD)),
        frozenset((QueueState.LOST, QueueState.AHEAD)),
        frozenset((QueueState.LOST, QueueState.NEW)),
        frozenset((QueueState.UNKNOWN, QueueState.AHEAD)),
        frozenset((QueueState.NEW, QueueState.RECREATED)),
        frozenset((QueueState.LOST, QueueState.RECREATED)),
    }
)


def cooked(*states):
    """A queue of which all this holds."""
    pair = healthy()
    for state in states:
        RECIPES[state](pair)
    return pair


def rule(state):
    return next(found for found in RULES if found.state is state)


def state_of(pair):
    (code,) = codes_of(pair)
    return RULES[code].state


def test_the_rules_stand_in_the_order_of_the_states():
    assert [found.state for found in RULES] == list(QueueState)


@pytest.mark.parametrize(
    "number", range(1, len(RULES) + 1), ids=[found.state.value for found in RULES]
)
def test_each_rule_says_its_number_and_state(number):
    found = RULES[number - 1]
    assert found.applies.__doc__.startswith(f"{number}. {found.state}")


def test_a_healthy_queue_is_ok():
    assert state_of(healthy()) is QueueState.OK


@pytest.mark.parametrize("state", RECIPES)
def test_each_state_can_be_had(state):
    pair = cooked(state)
    assert state_of(pair) is state
    assert rule(state).cause(pair, 0)


@pytest.mark.parametrize(("first", "second"), list(combinations(RECIPES, 2)))
def test_of_two_that_apply_the_first_counts(first, second):
    pair = cooked(second, first) if first is QueueState.UNKNOWN else cooked(first, second)
    both = all(rule(s).possible(pair) and rule(s).applies(pair, 0) for s in (first, second))
    if frozenset((first, second)) not in EXCLUDE:
        assert both, "a recipe no longer makes what it is to make"
        assert state_of(pair) is first


def test_no_warning_hides_what_is_critical():
    judged = [VERDICTS[found.state] for found in RULES]
    warnings = [place for place, verdict in enumerate(judged) if verdict is Verdict.WARNING]
    critical = [place for place, verdict in enumerate(judged) if verdict is Verdict.CRITICAL]
    assert max(critical) < min(warnings)


@pytest.mark.parametrize("state", RECIPES)
def test_parked_keys_change_no_state(state):
    pair = cooked(state)
    record = QueueRecord(6, 4, (ParkedKey("customer-77", 2, 0, 3),))
    pair.signs.reading = replace(pair.signs.reading, records={QUEUE: record})
    assert state_of(pair) is state
    assert "customer-77" not in rule(state).cause(pair, 0)


# --- what is critical, and the warning beside it --------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "beside", "words"),
    [
        (QueueState.STALL, QueueState.SUSPENDED, ["nothing committed for 120 s", "fails"]),
        (QueueState.STALL, QueueState.UNLOCKED, ["nothing committed for 120 s", "no lock"]),
        (QueueState.OFFLINE, QueueState.RECREATED, ["no member is connected", "created again"]),
    ],
)
def test_a_critical_cause_tells_what_the_warning_knows(bad, beside, words):
    pair = cooked(bad, beside)
    pair.codes = codes_of(pair)
    state, cause = state_and_cause(pair, 0)
    assert state is bad
    assert [word for word in words if word not in cause] == []
    assert "unseen" not in cause


def test_a_stall_that_nothing_explains_says_so():
    pair = cooked(QueueState.STALL)
    pair.codes = codes_of(pair)
    assert state_and_cause(pair, 0)[1].endswith("120 s; the cause is not visible from here")


def test_by_key_a_message_that_is_tried_again_stalls_its_queue_only_if_later_ones_wait():
    pair = cooked(QueueState.STALL, QueueState.SUSPENDED)
    pair.signs.order = "key"
    record = QueueRecord(6, 4)
    pair.signs.reading = replace(pair.signs.reading, records={QUEUE: record})
    assert state_of(pair) is QueueState.SUSPENDED
    pair.track.grew_at[0] = AT - 10
    assert state_of(pair) is QueueState.STALL


# --- a queue that nobody has ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored_at", "state"),
    [(AT - 5, QueueState.UNLOCKED), (AT - 4.9, QueueState.OK), (0.0, QueueState.UNLOCKED)],
    ids=["for 5 s", "for less, as in a hand-over", "not known for how long"],
)
def test_what_waits_where_nobody_is_has_no_lock(stored_at, state):
    pair = healthy()
    pair.signs.unowned = {QUEUE}
    pair.track.head_at[0] = stored_at
    assert state_of(pair) is state


def test_its_cause_says_whose_it_may_be_and_until_when():
    pair = healthy()
    pair.signs.unowned = {QUEUE}
    cause = rule(QueueState.UNLOCKED).cause(pair, 0)
    assert "or a dead member has, and its lock is free 60 s after the last renewal" in cause


# --- a queue that nobody may read, or can -----------------------------------------------------


def barred(pair):
    pair.signs.barred = frozenset({"broker-a"})


def closed(pair):
    pair.topic.closed = {"broker-a": "the topic may not be read"}


def unpulled(pair):
    pair.signs.unpulled = {QUEUE: "client-1 cannot pull it: not permitted"}


@pytest.mark.parametrize(
    ("forbid", "words"),
    [
        (barred, "broker broker-a does not let the group consume"),
        (closed, "nobody reads it: the topic may not be read"),
        (unpulled, "client-1 cannot pull it: not permitted"),
    ],
)
def test_what_nobody_may_or_can_read_is_an_orphan_and_says_why(forbid, words):
    pair = healthy()
    forbid(pair)
    assert state_of(pair) is QueueState.ORPHAN
    assert words in rule(QueueState.ORPHAN).cause(pair, 0)


@pytest.mark.parametrize("forbid", [barred, closed])
def test_of_another_broker_nothing_is_said(forbid):
    pair = healthy()
    pair.topic.reading = replace(
        pair.topic.reading, queues=(MessageQueue("orders", "broker-b", 0),)
    )
    forbid(pair)
    assert state_of(pair) is QueueState.OK


@pytest.mark.parametrize("forbid", [barred, closed])
@pytest.mark.parametrize(
    ("members", "topics", "state"),
    [
        (("client-1",), {"orders"}, QueueState.ORPHAN),
        (("client-1",), {"bills"}, QueueState.NOT_APPLICABLE),
        (("client-1",), None, QueueState.OK),
        ((), {"orders"}, QueueState.OK),
        (None, None, QueueState.OK),
    ],
)
def test_where_nothing_waits_it_matters_to_members_that_are_there(forbid, members, topics, state):
    """A group may have been put out of use."""
    pair = healthy()
    forbid(pair)
    pair.backlog, pair.signs.members, pair.signs.topics = [0], members, topics
    if state is QueueState.NOT_APPLICABLE:
        pair.backlog = [None]
    assert state_of(pair) is state


def test_what_was_committed_since_an_owner_could_not_pull_shows_that_somebody_can():
    pair = healthy()
    unpulled(pair)
    pair.track.moved_at[0] = AT + 1
    assert state_of(pair) is QueueState.OK


def test_without_members_it_says_why_none_can_start():
    pair = cooked(QueueState.OFFLINE)
    barred(pair)
    assert state_of(pair) is QueueState.OFFLINE
    assert "none can consume: broker broker-a" in rule(QueueState.OFFLINE).cause(pair, 0)


# --- no queue, or no backlog ------------------------------------------------------------------


def test_an_empty_queue_that_nobody_has_waits_for_nobody():
    pair = healthy()
    pair.signs.unowned, pair.backlog = {QUEUE}, [0]
    assert state_of(pair) is QueueState.OK


def test_what_the_group_has_committed_beyond_is_over():
    pair = healthy()
    pair.signs.blocked = {QUEUE: QueueTrouble(3, "runs")}
    assert state_of(pair) is QueueState.OK


def test_what_may_be_a_moment_between_two_messages_counts_only_at_rest():
    pair = healthy()
    pair.signs.suspended = {QUEUE: QueueTrouble(4, "fails", at_rest=True)}
    assert state_of(pair) is QueueState.OK
    pair.track.moved_at[0] = AT - 15
    assert state_of(pair) is QueueState.SUSPENDED
    pair.signs.suspended = {QUEUE: QueueTrouble(5, "fails", at_rest=True)}
    assert state_of(pair) is QueueState.OK


def test_an_offset_that_a_broker_forgot_was_not_never_committed():
    pair = cooked(QueueState.NEW)
    record = QueueRecord(6, 4)
    pair.signs.reading = replace(pair.signs.reading, records={QUEUE: record})
    assert state_of(pair) is QueueState.NEW
    assert "goes on at 4" in rule(QueueState.NEW).cause(pair, 0)


# --- a topic made anew ---------------------------------------------------------------------------

JUST_NOW, LONG_AGO, BEFORE_THE_WINDOW = AT - 59, AT - 61, AT - 301


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ({"at": AT - 300}, QueueState.RECREATED),
        ({"at": BEFORE_THE_WINDOW}, QueueState.OK),
        ({"at": BEFORE_THE_WINDOW, "recorded": True}, QueueState.RECREATED),
        ({"at": BEFORE_THE_WINDOW, "gone_on_at": JUST_NOW}, QueueState.RECREATED),
        ({"at": AT - 100, "gone_on_at": LONG_AGO}, QueueState.OK),
    ],
)
def test_a_topic_made_anew_is_told_until_the_group_went_on_or_for_the_window(found, state):
    pair = healthy()
    recreated(pair, **found)
    assert state_of(pair) is state


@pytest.mark.parametrize(
    ("found", "offline", "committed", "words"),
    [
        ({"recorded": True}, False, NEVER, ["at 9", "members begin at 2", "nothing to do"]),
        ({"recorded": True}, True, NEVER, ["at 9", "no member is connected", "begins at 2"]),
        ({}, True, NEVER, ["at 9", "no offset now", "its own setting"]),
        ({}, False, 11, ["at 9", "is at 11 now", "orderly members that had the queue begin at 2"]),
        ({"gone_on_at": AT}, False, 5, ["at 9", "went on", "at 5 now"]),
    ],
)
def test_its_cause_names_both_positions_and_what_follows(found, offline, committed, words):
    pair = healthy()
    recreated(pair, **found)
    pair.signs.offline, pair.committed = offline, (committed,)
    pair.topic.reading = replace(pair.topic.reading, minimum=(2,))
    cause = rule(QueueState.RECREATED).cause(pair, 0)
    assert [word for word in words if word not in cause] == []


def test_of_another_queue_it_says_nothing():
    pair = healthy()
    other = replace(QUEUE, queue_id=1)
    found = {other: Recreation(9, AT)}
    pair.signs.reading = replace(pair.signs.reading, recreated=found)
    assert state_of(pair) is QueueState.OK
