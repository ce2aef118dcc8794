"""Appending, noting and recording a parked message: every step may fail, and nothing is lost."""

import pytest
from structlog.testing import capture_logs

from orderly.clock import now
from orderly.config import ParkLimits
from orderly.errors import LockLost, RequestTimeout
from orderly.ordering.context import Failure
from orderly.ordering.fingerprint import answered
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Disposition
from orderly.protocol.park_record import Parked

FAILED = Failure("no such account", 3, "fp", "first", "last")
TIMEOUT = RequestTimeout("made by the test")


def test_a_failed_message_is_parked_with_all_that_is_known_of_it(setting, shelf):
    setting.pulled("a")
    with capture_logs() as logs:
        assert setting.aside.park(setting.held, setting.take(), {0: FAILED}) is None
    (parked,) = shelf.control(Parked)
    told = parked.details
    assert (told.key, told.reason, told.attempts, told.token) == ("a", "no such account", 3, 7)
    assert (told.fingerprint, told.first_error, told.last_error) == ("fp", "first", "last")
    assert [p.next for p in setting.records[-1].parked] == [0]
    (event,) = [e for e in logs if e["event"] == "key.parked"]
    assert (event["key"], event["offset"], event["attempts"]) == ("a", 0, 3)


def test_the_record_is_written_once_for_a_key(setting):
    setting.park("a", "a", "b", "a")
    assert len(setting.records) == 2
    assert setting.parking.get("a").messages == 3


def test_a_record_that_fails_parks_nothing_and_is_done_again(setting):
    setting.fail_record = [TIMEOUT]
    setting.pulled("a")
    batch = setting.take()
    assert setting.aside.park(setting.held, batch, {0: FAILED}) == 1.0
    assert not setting.parking.parked("a"), "the handler may be asked again"
    assert setting.aside.park(setting.held, batch, {0: FAILED}) is None
    assert setting.parking.get("a").messages == 1
    assert setting.held.memory.recorded("a")


def test_each_failure_makes_the_wait_longer_until_it_works(setting, shelf):
    shelf.fail = [TIMEOUT] * 5
    setting.pulled("a")
    batch = setting.take()
    waits = [setting.aside.park(setting.held, batch, {0: FAILED}) for _ in range(6)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0, None]


def test_a_short_trouble_makes_no_key_wait_for_the_others_failures(setting, shelf):
    shelf.fail = [TIMEOUT] * 3
    setting.pulled("a", "b", "c")
    batches = [setting.take() for _ in range(3)]
    waits = [setting.aside.park(setting.held, batch, {}) for batch in batches]
    assert waits == [1.0, 1.0, 1.0]


def test_a_key_whose_record_is_in_doubt_is_recorded_again(setting):
    setting.park("a")
    setting.held.memory.kept.clear()
    setting.park("a")
    assert len(setting.records) == 2


def test_below_what_is_on_record_the_record_comes_first(setting):
    """The offset was set back: an heir must not take these messages for settled."""
    setting.park("a", "a")
    setting.parking.settled("a", 2)
    setting.owned.messages._last = -1
    setting.owned.next_pull = 0
    setting.fail_record = [TIMEOUT]
    setting.pulled("a")
    batch = setting.take()
    setting.held.memory.kept["a"] = setting.parking.get("a")
    assert setting.aside.park(setting.held, batch, {}) == 1.0
    assert setting.parking.get("a").next == 2
    assert setting.aside.park(setting.held, batch, {}) is None
    assert setting.records[-1].parked[0].next == 0


@pytest.mark.parametrize(
    "end",
    [lambda owned: owned.drop(Drop.LOST), lambda owned: owned.restart_at(0, Drop.OFFSET_ILLEGAL)],
)
def test_nothing_is_appended_or_told_once_results_do_not_count(end, setting, shelf):
    setting.pulled("a")
    batch = setting.take()
    end(setting.owned)
    with capture_logs() as logs:
        assert setting.aside.park(setting.held, batch, {0: FAILED}) is not None
    assert shelf.messages == []
    assert logs == [], "nothing failed"


def test_a_lost_lock_while_recording_parks_nothing(setting):
    setting.pulled("a")
    setting.fail_record = [LockLost("made by the test")]
    assert setting.aside.park(setting.held, setting.take(), {0: FAILED}) is not None


def test_keys_that_are_equal_are_one(setting, shelf):
    setting.park(1)
    setting.pulled(1.0)
    assert setting.aside.park(setting.held, setting.take(), {}) is None
    assert shelf.parked == [(1, 0), (1, 1)]


def park_together(setting, shelf, first, second):
    """Park a batch, and another one while the first is being stored; what became of each."""
    waits = []

    def meanwhile():
        shelf.after_send = lambda: None
        waits.append(setting.aside.park(setting.held, second, {}))

    shelf.after_send = meanwhile
    return setting.aside.park(setting.held, first, {}), *waits


def test_keys_that_are_parked_together_do_not_pass_the_limit_together(setting, shelf):
    object.__setattr__(setting.session.config, "parking", ParkLimits(keys=1))
    setting.pulled("a", "b")
    first, second = setting.take(), setting.take()
    assert park_together(setting, shelf, first, second) == (None, 1.0)
    assert len(setting.parking) == 1


@pytest.mark.parametrize("limits", [{"messages": 3}, {"size": 3 * 70}], ids=str)
def test_messages_that_are_parked_together_do_not_pass_the_limit_together(limits, setting, shelf):
    object.__setattr__(setting.session.config, "parking", ParkLimits(**limits))
    setting.park("a")
    setting.pulled("b", "b", "c")
    first, second = setting.take(), setting.take()
    assert park_together(setting, shelf, first, second) == (None, 1.0)
    assert (setting.parking.messages, setting.parking.size) == (3, 3 * 70)


def test_beyond_a_limit_a_key_waits_longer_each_time_and_it_is_told_why(setting):
    object.__setattr__(setting.session.config, "parking", ParkLimits(keys=1))
    setting.park("a")
    setting.pulled("b")
    waits, held = [], setting.held
    with capture_logs() as logs:
        for _ in range(5):
            batch = setting.take()
            held.failures.failed("b", 1, answered("bad"), now())
            waits.append(setting.aside.park(held, batch, {1: FAILED}))
            setting.owned.finish(batch, Disposition.PUT_BACK, now())
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0]
    whys = {e["why"] for e in logs if e["event"] == "park.refused"}
    assert whys == {"1 keys of the queue are parked, its share of the limit"}
    assert held.failures.of("b", 1).because in whys
