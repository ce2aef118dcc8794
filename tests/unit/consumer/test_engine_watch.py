"""An engine that does not run what it is given: when that counts, and what follows."""

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer import engine_watch
from orderly.consumer.engine_watch import EngineWatch
from orderly.consumer.introspection import ConsumerInspector
from orderly.ordering.explain import Why
from tests.support.standstill import HandClock

TRUST = 30  # seconds, lock_trust


class Engine:
    """One that begins what it is given when the test says so."""

    def __init__(self):
        self.begun = 0
        self.waits = self.stopped = False
        self.gone = self.thread = None
        self.trouble = "made by the test"
        self.nudges = []

    def nudge(self, *, standing):
        self.nudges.append(standing)


class Setting:
    def __init__(self, session, monkeypatch):
        self.clock = HandClock(1000.0)
        monkeypatch.setattr(engine_watch, "now", lambda: self.clock.at)
        monkeypatch.setattr(session.client, "awake", self.clock)
        session.config = ConsumerConfig(lock_trust=TRUST)
        self.session, self.engine, self.failures = session, Engine(), []
        self.watch = EngineWatch(session, self.engine, self.failures.append)
        self.inspector = ConsumerInspector(session, engine=self.watch)

    def look(self, times=1):
        """Look once a second."""
        for _ in range(times):
            self.clock.at += 1
            self.clock.look()
            self.watch.round()

    @property
    def health(self):
        return self.inspector.health("running")


@pytest.fixture
def setting(session, attention, monkeypatch):
    return Setting(session, monkeypatch)


def names(events):
    return [event["event"] for event in events if event["event"].startswith("engine.")]


def test_without_work_it_is_well(setting, events):
    setting.look(10 * TRUST)
    assert not setting.session.standing
    assert setting.watch.reason is None
    assert names(events) == []


def test_what_waits_while_something_begins_waits_for_its_turn(setting, events):
    setting.engine.waits = True
    for _ in range(10 * TRUST):
        setting.look(TRUST - 5)
        setting.engine.begun += 1
    assert not setting.session.standing
    assert names(events) == []


def test_after_lock_trust_it_has_no_queues_and_after_twice_that_it_is_not_live(
    setting, attention, events
):
    setting.engine.waits = True
    setting.look(TRUST)
    assert not setting.session.standing
    assert setting.watch.reason is None, "it may just be late"
    setting.look(2)
    assert setting.session.standing
    assert attention == [1], "the rebalancer gives its queues up"
    health = setting.health
    assert (health.live, health.ready) == (True, False)
    assert "made by the test; the queues are given up" in health.reasons[0]
    setting.look(TRUST - 2)
    assert setting.health.live
    setting.look(3)
    assert not setting.health.live
    setting.look(10 * TRUST)
    stands = [event for event in events if event["event"] == "engine.stands"]
    assert [round(event["seconds"]) for event in stands] == [TRUST, 2 * TRUST]
    assert stands[0]["why"] == "made by the test"


def test_it_runs_again_only_when_something_has_begun(setting, attention, events):
    setting.engine.waits = True
    setting.look(TRUST + 2)
    setting.engine.waits = False  # nothing is left: the queues are given up
    setting.look(5)
    assert setting.session.standing
    assert setting.engine.nudges[-1] is True, "it is given something to begin"
    setting.engine.begun += 1
    setting.look()
    assert not setting.session.standing
    assert attention == [1, 1]
    assert names(events) == ["engine.stands", "engine.goes_on"]
    assert setting.watch.reason is None
    assert setting.health.live
    setting.look()
    assert setting.engine.nudges[-1] is False


def test_a_standstill_of_the_process_is_no_evidence(setting, events):
    """Stopped for a day in the middle of a wait: the engine had no more time than anybody."""
    setting.engine.waits = True
    for _ in range(3):
        setting.look(5)
        setting.clock.at += 86_400
    assert not setting.session.standing
    assert setting.watch.seconds < TRUST
    assert setting.health.live
    assert names(events) == []
    setting.look(TRUST)
    assert setting.session.standing


def test_a_loop_that_is_stopped_is_not_ready_at_once(setting):
    setting.engine.waits = setting.engine.stopped = True
    setting.look()
    assert setting.watch.reason == (
        "no handler call has begun for 0 s although there is room for it: made by the test"
    )
    assert not setting.session.standing, "it may be run again"
    setting.engine.begun += 1
    setting.look()
    assert setting.watch.reason is None


def test_one_that_is_gone_fails_the_consumer_once(setting, events):
    setting.engine.gone = "it was closed"
    setting.look(5)
    assert setting.failures == ["it was closed"]
    assert setting.inspector.health("failed").reasons == ("the consumer is failed: it was closed",)
    assert names(events) == ["engine.gone"]


def test_without_queues_each_of_the_groups_is_explained(setting, rebalancer):
    rebalancer.round()
    setting.session.standing = True
    rebalancer.round()
    assert {e.why for e in setting.inspector.explain()} == {Why.WITHDRAWN}
