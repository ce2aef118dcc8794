"""What goes to the broker is timed, and nothing about it is changed."""

from types import SimpleNamespace

import pytest

from orderly.bench.clock import PhaseClock
from orderly.bench.figures import Where
from orderly.bench.watch import WatchedBrokers, kind_of
from orderly.errors import BrokerBusy, RequestTimeout, SendFailed


class Brokers:
    """Answers on the spot with what it is given."""

    def __init__(self, outcome, returns=True):
        self.outcome, self.returns, self.asked = outcome, returns, []

    def send(self, *args, **how):
        self.asked.append((args[:3], how))
        return self._answer(args[3])

    def pull(self, query, on_result, **how):
        return self._answer(on_result)

    def update_offset(self, *args):
        if self.outcome is not None:
            raise self.outcome

    def query_offset(self):
        return "goes through"

    def _answer(self, on_result):
        if isinstance(self.returns, Exception):
            raise self.returns
        if self.returns is True:
            on_result(self.outcome)
        return self.returns


class Reply:
    def __init__(self, count):
        self.messages = [None] * count


def test_a_pull_that_brings_messages_is_told_from_one_that_does_not():
    got = []
    for count in 3, 0:
        watched = WatchedBrokers(Brokers(Reply(count)), PhaseClock())
        assert watched.pull(SimpleNamespace(queue="q"), got.append, may_connect=False) is True
        pulls = watched.pulls
        assert watched.pulled == {"q"}
        assert (pulls.messages, pulls.empty, pulls.in_flight) == (count, count == 0, 0)
    assert [len(reply.messages) for reply in got] == [3, 0]


def test_errors_are_counted_and_passed_on():
    busy = BrokerBusy("too much")
    watched, got = WatchedBrokers(Brokers(busy), PhaseClock()), []
    assert watched.send("queue", "command", 3.0, got.append, may_connect=True) is True
    assert got == [busy]
    assert watched.sends.errors == {"BrokerBusy": 1}
    assert watched._brokers.asked == [(("queue", "command", 3.0), {"may_connect": True})]


@pytest.mark.parametrize("returns", [False, None])
def test_a_request_that_was_not_sent_is_none(returns):
    watched = WatchedBrokers(Brokers(None, returns), PhaseClock())
    assert watched.send("queue", "command", 3.0, pytest.fail) is returns
    assert (watched.sends.in_flight, watched.sends.messages) == (0, 0)


def test_one_that_could_not_be_sent_raises_as_before():
    watched = WatchedBrokers(Brokers(None, RequestTimeout("late")), PhaseClock())
    with pytest.raises(RequestTimeout):
        watched.send("queue", "command", 3.0, pytest.fail)
    assert (watched.sends.in_flight, watched.sends.errors) == (0, {"RequestTimeout": 1})


def test_a_caller_who_reads_his_answer_himself_still_can():
    clock = PhaseClock()
    watched = WatchedBrokers(Brokers(None, lambda: "read"), clock)
    assert watched.send("queue", "command", 3.0, pytest.fail)() == "read"
    assert Where.ANSWERS not in clock.seconds() or clock.seconds()[Where.ANSWERS] >= 0


def test_commits_are_timed_and_their_errors_raised():
    watched = WatchedBrokers(Brokers(None), PhaseClock())
    watched.update_offset("g", "queue", 5)
    assert watched.commits.messages == 1
    watched = WatchedBrokers(Brokers(RequestTimeout("late")), PhaseClock())
    with pytest.raises(RequestTimeout):
        watched.update_offset("g", "queue", 5)
    assert watched.commits.errors == {"RequestTimeout": 1}


def test_all_else_goes_through():
    assert WatchedBrokers(Brokers(None), PhaseClock()).query_offset() == "goes through"


def test_the_kind_of_an_error_is_its_causes():
    failed = SendFailed("it failed")
    assert kind_of(failed) == "SendFailed"
    failed.__cause__ = RequestTimeout("late")
    assert kind_of(failed) == "RequestTimeout"
