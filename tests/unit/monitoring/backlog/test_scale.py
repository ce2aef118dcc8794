"""The shape of the cost: what does not change is not looked at again, and history is bounded."""

from orderly.monitoring.backlog import evaluate
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.reading import GroupReading
from tests.support.snapshots import AT, scan

QUEUES = 16


def offline(n, moved=()):
    """Three groups with a backlog on one topic; the group numbers in `moved` committed."""
    groups = [f"g{number}" for number in range(3)]
    return scan(
        AT + 15 * n,
        {"orders": [(0, 100)] * QUEUES},
        {name: {"orders": [n if name in moved else 0] * QUEUES} for name in groups},
        {name: GroupReading(name, read_at=AT) for name in groups},
    )


def test_a_pair_that_did_not_change_is_not_judged_again(monkeypatch):
    judged = []
    codes_of = evaluate.codes_of
    monkeypatch.setattr(
        evaluate, "codes_of", lambda pair: judged.append(pair.group) or codes_of(pair)
    )
    backlog = Backlog()
    backlog.take(offline(0))
    backlog.take(offline(1))
    assert judged == ["g0", "g1", "g2"]
    backlog.take(offline(2, moved={"g1"}))
    assert judged[3:] == ["g1"]


def test_a_pair_that_did_not_change_shares_its_columns_and_still_grows_older():
    backlog = Backlog()
    first = backlog.take(offline(0))
    for n in range(1, 4):
        last = backlog.take(offline(n))
    memory = backlog._pairs["g0", "orders"]
    assert memory.track is first.groups["g0"].topics["orders"].make_rows.args[0].track
    assert last.at > first.at


def test_time_alone_still_makes_a_stall():
    backlog = Backlog()
    for n in range(20):
        found = backlog.take(scan(AT + 15 * n, {"orders": [(0, 100)]}, {"g": {"orders": [5]}}))
    assert found.groups["g"].sums.state == "STALL"


def test_memory_of_scans_is_bounded():
    backlog = Backlog()
    for n in range(200):
        backlog.take(scan(AT + 15 * n, {"orders": [(0, 100 + n)]}, {"g": {"orders": [n]}}))
    memory = backlog._pairs["g", "orders"]
    (curve,) = memory.pair.topic.curves
    assert len(memory.points) == 2 * 60
    assert len(curve._ends) == 60
    assert len(backlog._times) == 60


def test_rows_are_made_only_when_asked_for(monkeypatch):
    made = []
    rows_of = evaluate.rows_of
    monkeypatch.setattr(evaluate, "rows_of", lambda pair: made.append(pair) or rows_of(pair))
    found = Backlog().take(offline(0))
    assert not made
    assert len(list(found.rows())) == 3 * QUEUES
