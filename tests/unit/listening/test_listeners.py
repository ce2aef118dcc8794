"""What a consumer is told of each message, for plain and async functions alike."""

import asyncio
import json
import sys
import threading
from dataclasses import replace

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from orderly import (
    Ack,
    AsyncListener,
    Block,
    ConsumeContext,
    ConsumeResult,
    DeadLetter,
    Fail,
    Listener,
    Message,
    Park,
    PoisonRules,
    Retry,
    Skip,
    Suspend,
)
from orderly.errors import ConnectionLost, HandlerHung, LockLost
from orderly.listening import listeners
from orderly.listening.policy import UnsettledMessage
from orderly.ordering.poison import VerdictReason
from tests.support.messages import QUEUE, message

SUCCESS, SUSPEND = ConsumeResult.SUCCESS, ConsumeResult.SUSPEND
ONCE = Retry(stop=tenacity.stop_after_attempt(1))


class Script:
    """A function that gives one answer after another, the last one for ever; errors are raised."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.seen = []

    def __call__(self, message, attempt):
        self.seen.append((message.queue_offset, attempt.number))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Driven:
    """A listener of either kind, called in the same way."""

    def __init__(self, kind, function, **settings):
        self._async = kind == "async"
        if self._async:

            async def awaited(message, attempt):
                return function(message, attempt)

            self.listener = AsyncListener(awaited, **settings)
        else:
            self.listener = Listener(function, **settings)

    def __call__(self, messages, context):
        answer = self.listener(messages, context)
        return asyncio.run(answer) if self._async else answer

    def run(self, message, **how):
        outcome = self.listener.run(message, **how)
        return asyncio.run(outcome) if self._async else outcome


@pytest.fixture(params=["plain", "async"])
def make(request):
    def made(function, **settings):
        return Driven(request.param, function, **settings)

    return made


def delivered(times=0, offset=0, key="k"):
    """A message that was tried `times` before."""
    return replace(message(offset, key), reconsume_times=times)


# --- what every answer becomes ------------------------------------------------------------------


def test_done_acknowledges(make, context):
    assert make(Script(Ack()))([message(0)], context) is SUCCESS
    assert context.finished == {0}


def test_a_failure_is_a_wait_of_the_messages_lane_and_nothing_sleeps(make, context):
    retry = Retry(wait=tenacity.wait_fixed(5))
    assert make(Script(OSError("down")), retry=retry)([message(0)], context) is SUSPEND
    assert context.suspend_seconds == 5
    assert (context.finished, context.untried) == (set(), set())


def test_the_wait_is_no_longer_than_the_consumer_allows(make):
    retry = Retry(wait=tenacity.wait_fixed(20))
    context = ConsumeContext(QUEUE, max_suspend=10)
    make(Script(OSError("down")), retry=retry)([message(0)], context)
    assert context.suspend_seconds == 10
    blocked = ConsumeContext(QUEUE, max_suspend=10)
    make(Script(Block("r")))([message(0)], blocked)
    assert blocked.suspend_seconds == 10


@pytest.mark.parametrize(
    ("answer", "wait"), [(Suspend(7.0), 7.0), (Block("r"), 60.0)], ids=["suspend", "block"]
)
def test_the_function_may_ask_for_a_wait(make, context, answer, wait):
    assert make(Script(answer))([delivered(9)], context) is SUSPEND
    assert context.suspend_seconds == wait


def test_suspend_without_seconds_waits_longer_each_time(make):
    waits = [make(Script(Suspend())).run(delivered(times)).seconds for times in (0, 3, 99)]
    assert 0.5 <= waits[0] <= 1
    assert 4 <= waits[1] <= 8
    assert 30 <= waits[2] <= 60


def test_dead_letter_and_park_reach_the_consumer(make, context):
    assert make(Script(DeadLetter("no account")))([message(7)], context) is SUSPEND
    assert context.rejected == {7: "no account"}
    parked = ConsumeContext(QUEUE, key="k")
    assert make(Script(Park("no account")))([delivered(2, 7)], parked) is SUSPEND
    assert (parked.parked[7].reason, parked.parked[7].attempts) == ("no account", 3)
    assert parked.finished == set()


def test_skip_acknowledges_with_an_audit_event(make, context, events):
    answer = make(Script(Skip("spam"), Ack()))([message(7), message(8)], context)
    assert (answer, context.finished) == (SUCCESS, {7, 8})
    event = next(e for e in events if e["event"] == "message.skipped")
    assert event["log_level"] == "error"
    assert (event["topic"], event["queue_id"], event["offset"]) == (QUEUE.topic, 0, 7)
    assert (event["message_id"], event["offset_message_id"]) == ("id-7", "offset-id-7")
    assert (event["reason"], event["body_bytes"], event["key"]) == ("spam", 4, "k")
    assert event["body_sha256"].startswith("230d8358dc8e8890")


def test_what_ends_the_program_is_passed_on(context):
    with pytest.raises(KeyboardInterrupt):
        Listener(Script(Ack(), KeyboardInterrupt()))([message(0), message(1), message(2)], context)
    assert context.finished == {0}


ANSWERS = st.sampled_from(
    [
        Ack(), Ack(), Ack(), Fail("r"), Suspend(), Suspend(2.0), Suspend(31), DeadLetter("r"),
        Block("r"), Park("r"), Skip("r"), None, True, "Ack", Ack, ConsumeResult.SUCCESS,
        OSError("down"), ValueError("fatal"),
    ]
)  # fmt: skip


@given(
    st.lists(ANSWERS, min_size=1, max_size=6),
    st.sampled_from(["block", "dead_letter", "skip", "park_key"]),
    st.sampled_from(["plain", "async"]),
    st.booleans(),
)
def test_everything_before_the_first_failing_one_is_done_and_nothing_after_it_runs(
    batch, policy, kind, replayed
):
    def play(message, attempt):
        ran.append(message.queue_offset)
        answer = batch[message.queue_offset]
        if isinstance(answer, Exception):
            raise answer
        return answer

    ran, context = [], ConsumeContext(QUEUE, key="k", replayed=replayed)
    listener = Driven(kind, play, on_error={ValueError: policy})
    answer = listener([message(offset) for offset in range(len(batch))], context)

    assert ran == list(range(len(ran))), "out of order, or one was passed over"
    last = ran[-1]
    given_up = {n for n in ran if not replayed and batch[n] == Skip("r")}
    if policy == "skip" and not replayed:
        poisoned = [n for n in ran if isinstance(batch[n], ValueError)]
        # One more needs a success since the last one: else it may be a bad deploy.
        given_up |= {
            n
            for before, n in zip([None, *poisoned], poisoned, strict=False)
            if before is None or Ack() in batch[before:n]
        }
    acked = {n for n in ran if batch[n] == Ack()}
    assert context.finished == acked | given_up, "acknowledged without Ack, or Ack was lost"
    assert set(range(last)) <= context.finished, "something ran behind a failing message"
    assert (answer is SUCCESS) == (len(context.finished) == len(batch))
    assert context.untried == (set() if answer is SUCCESS else set(range(last + 1, len(batch))))
    assert not context.finished & (context.rejected.keys() | context.parked.keys())
    if replayed:
        assert answer is SUCCESS or isinstance(answer, Fail)
        assert not context.rejected
        assert not context.parked


# --- retry, then back-off -----------------------------------------------------------------------


def test_retries_then_growing_waits_without_a_verdict(make):
    retry = Retry(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_fixed(0.1))
    failing = make(Script(OSError()), poison=None, retry=retry, suspend=2, max_suspend=8)
    waits = [failing.run(message(0), attempt=n, now=float(n)).seconds for n in range(1, 8)]
    assert waits[:2] == [0.1, 0.1]
    for wait, full in zip(waits[2:], [2, 4, 8, 8, 8], strict=True):
        assert full / 2 <= wait <= full


def test_a_rule_may_ask_how_long_the_message_was_made_to_wait(make):
    retry = Retry(stop=lambda state: state.idle_for >= 6, wait=tenacity.wait_fixed(3))
    failing = make(Script(OSError()), poison=None, retry=retry, suspend=0.01, max_suspend=0.01)
    waits = [failing.run(message(0), attempt=n, now=float(n)).seconds for n in (1, 2, 3)]
    assert waits == [3, 3, 0.01]


def test_a_rule_that_raises_is_no_retry_and_told(make, events, context):
    def wait(state):
        raise ZeroDivisionError

    assert make(Script(OSError()), retry=Retry(wait=wait))([message(0)], context) is SUSPEND
    assert [e["event"] for e in events] == [
        "retry_rule.raised",
        "message.retry",
    ]


def test_each_failure_is_an_event_that_says_what_follows(make, events):
    failing = make(Script(OSError("down")), retry=Retry(stop=tenacity.stop_after_attempt(2)))
    context = ConsumeContext(QUEUE, "shipping", key=("account", 7))
    failing.run(delivered(0, 7), now=0.0, context=context)
    failing.run(delivered(1, 7), now=1.0, context=context)
    assert [(e["event"], e["attempt"], e["in_place"]) for e in events] == [
        ("message.retry", 1, True),
        ("message.retry", 2, False),
    ]
    event = events[0]
    assert (event["group"], event["offset"], event["key"]) == ("shipping", 7, "('account', 7)")
    assert (event["reason"], event["finding"], event["because"]) == (
        "OSError: down",
        "RETRY",
        "TOO_EARLY",
    )
    assert len(event["fingerprint"]) == 16
    assert [e["not_yet"] for e in events] == [VerdictReason.TOO_EARLY.value] * 2
    assert context.because == VerdictReason.TOO_EARLY.value


def test_an_event_tells_the_wait_that_the_consumer_allows(make, events):
    failing = make(Script(OSError()), retry=Retry(wait=tenacity.wait_fixed(15)))
    failing([message(0)], ConsumeContext(QUEUE, key="k", max_suspend=10))
    assert [e["seconds"] for e in events] == [10]
    waited = failing.listener._judge.memory("")._trying[QUEUE, "k"].waited
    assert waited == 10


class QueueOwnership:
    token, deadline = 1, float("inf")

    def __init__(self, error=None):
        self.lost, self.error, self.extended = threading.Event(), error, 0

    def extend(self):
        self.extended += 1
        if self.error is not None:
            raise self.error
        return self.deadline


def extending(make, ownership):
    failing = make(Script(OSError()), retry=Retry(extend=True, max_seconds=300))
    contexts = [ConsumeContext(QUEUE, key="k", ownership=ownership) for _ in range(2)]
    for times, context in enumerate(contexts):
        failing([delivered(times), message(1)], context)
    return contexts[1]


def test_the_lock_is_renewed_before_each_retry_and_not_before_the_first_try(make):
    ownership = QueueOwnership()
    extending(make, ownership)
    assert ownership.extended == 1


@pytest.mark.parametrize("error", [LockLost("gone"), ConnectionLost("gone")])
def test_without_the_lock_there_is_no_retry_and_no_attempt_is_counted(make, error):
    assert extending(make, QueueOwnership(error)).untried == {0, 1}


def test_without_extend_no_retry_asks_the_broker(make):
    ownership, failing = QueueOwnership(), make(Script(OSError()))
    for times in range(3):
        failing([delivered(times)], ConsumeContext(QUEUE, key="k", ownership=ownership))
    assert ownership.extended == 0


# --- the verdict --------------------------------------------------------------------------------

RULES = PoisonRules(attempts=3, span=4.0, control_keys=3, first_wait=1.0)


def others_succeed(listener, now, keys=5):
    for key in range(keys):
        ConsumeContext(QUEUE, "g", key=key)
        listener.run(message(100, "ok"), now=now, context=ConsumeContext(QUEUE, "g", key=key))


def bad_among_good(make, **settings):
    def ship(message, attempt):
        if message.queue_offset == 7:
            raise KeyError("amount")
        return Ack()

    return make(ship, poison=RULES, retry=ONCE, **settings)


def until_poison(listener, context=None, last=20):
    """Deliver the bad message every two seconds while others succeed; its last outcome."""
    outcome = None
    for number in range(1, last):
        others_succeed(listener, now=2.0 * number)
        given = ConsumeContext(QUEUE, "g", key="bad") if context is None else context
        outcome = listener.run(delivered(number - 1, 7), now=2.0 * number, context=given)
        if not isinstance(outcome, Suspend):
            break
    return outcome


@pytest.mark.parametrize(
    ("policy", "kind"),
    [("block", Block), ("dead_letter", DeadLetter), ("skip", Skip), ("park_key", Park)],
)
def test_a_bad_message_among_good_ones_is_dealt_with_by_the_policy(make, events, policy, kind):
    outcome = until_poison(bad_among_good(make, on_poison=policy))
    assert isinstance(outcome, kind)
    found = [e for e in events if e["event"] == "message.poison"]
    if policy == "park_key":  # the consumer reports it
        assert found == []
        return
    event = found[0]
    assert (event["policy"], event["outcome"], event["log_level"]) == (
        policy,
        kind.__name__,
        "error",
    )
    assert (event["because"], event["evidence"]["same"]) == ("SAME_FAILURE", 3)
    assert event["fingerprint_text"].startswith("KeyError")
    assert ("order_gap" in event) == (policy in ("dead_letter", "skip"))


def test_park_tells_what_is_known_of_the_message(make):
    context = ConsumeContext(QUEUE, "g", key="bad")
    listener = bad_among_good(make, on_poison="park_key")
    until_poison(listener)
    assert listener([delivered(4, 7)], context) is SUSPEND
    failure = context.parked[7]
    assert failure.attempts == 5
    assert failure.fingerprint.startswith("KeyError")
    assert (failure.first_error, failure.last_error) == ("KeyError: 'amount'",) * 2


def test_block_is_told_each_time(make, events):
    listener = bad_among_good(make)
    assert isinstance(until_poison(listener), Block)
    for number in (30, 31):
        context = ConsumeContext(QUEUE, "g", key="bad")
        others_succeed(listener, now=2.0 * number)
        assert isinstance(
            listener.run(delivered(number, 7), now=2.0 * number, context=context), Block
        )
    assert len([e for e in events if e["event"] == "message.blocked"]) == 3


def test_what_could_not_be_set_aside_is_set_aside_again_when_it_comes_again(make):
    listener = bad_among_good(make, on_poison="park_key")
    assert isinstance(until_poison(listener), Park)
    context = ConsumeContext(QUEUE, "g", key="bad")
    assert isinstance(listener.run(delivered(5, 7), now=20.0, context=context), Park)


def test_a_fatal_class_is_poison_at_once_and_never_retried(make, context):
    def ship(message, attempt):
        raise UnicodeError("bad")

    listener = make(ship, on_error={ValueError: "dead_letter"})
    assert listener([message(7)], context) is SUSPEND
    assert context.rejected.keys() == {7}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("a"), DeadLetter),
        (UnicodeError("a"), Skip),  # not ValueError: the nearest class in the MRO decides
        (ValueError("a"), Park),
        (BlockingIOError("a"), Suspend),
        (ZeroDivisionError("a"), Suspend),  # nothing is known of it: others have to be seen first
    ],
    ids=repr,
)
def test_what_is_known_of_a_class_is_done_at_once(make, error, kind):
    known = {
        ValueError: "park_key",
        UnicodeError: "skip",
        KeyError: "dead_letter",
        OSError: "block",
        BlockingIOError: "wait",
    }
    listener = make(Script(error), on_error=known, on_poison="block")
    assert isinstance(listener.run(message(7)), kind)


def test_what_the_verdict_finds_of_an_unnamed_class_goes_by_on_poison(make):
    outcome = until_poison(
        bad_among_good(make, on_poison="skip", on_error={IndexError: "park_key"})
    )
    assert isinstance(outcome, Skip)


@pytest.mark.parametrize(
    ("settings", "parks"),
    [
        ({}, False),
        ({"on_poison": "park_key"}, True),
        ({"on_error": {KeyError: "park_key"}}, True),
        ({"on_error": {KeyError: "wait"}}, False),
    ],
)
def test_a_class_that_parks_needs_order_by_key_too(make, settings, parks):
    assert make(Script(Ack()), **settings).listener.parks is parks


def known_body(body):
    if body != b"body":
        raise ValueError("not known")
    return body


def garbage(key, times=0):
    return replace(message(key), body=b"?", reconsume_times=times)


def run_garbage(listener, key, now, times=0):
    context = ConsumeContext(QUEUE, "g", key=key)
    return listener.run(garbage(key, times), now=now, context=context), context


@pytest.mark.parametrize(("policy", "kind"), [("park_key", Park), ("dead_letter", DeadLetter)])
def test_many_bodies_that_cannot_be_decoded_are_dealt_with_at_once(make, policy, kind):
    listener = make(lambda value, attempt: Ack(), decode=known_body, on_poison=policy)
    assert {type(run_garbage(listener, key, 0.0)[0]) for key in range(20)} == {kind}


@pytest.mark.parametrize("policy", ["park_key", "dead_letter", "skip", lambda m, a, v: Skip("s")])
def test_a_decoder_that_reads_nothing_gives_up_a_few_and_tells_why_the_others_wait(
    make, events, policy
):
    listener = make(lambda value, attempt: Ack(), decode=known_body, on_poison=policy)
    found = [run_garbage(listener, key, 0.0) for key in range(60)]
    waits = [isinstance(outcome, Suspend) for outcome, _ in found]
    assert waits == [False] * 20 + [True] * 40
    told = [e for e in events if e["event"] == "message.retry"]
    assert {(e["because"], e["in_place"]) for e in told} == {("BUDGET", False)}
    assert "most_poisoned" in found[-1][1].because
    others_succeed(listener, 1.0)
    again = [run_garbage(listener, key, 2.0, times=1)[0] for key in range(20, 60)]
    assert [isinstance(outcome, Suspend) for outcome in again] == [False] * 5 + [True] * 35


def test_what_could_not_be_set_aside_takes_no_more_room_when_it_comes_again(make):
    listener = make(lambda value, attempt: Ack(), decode=known_body, on_poison="park_key")
    found = {type(run_garbage(listener, 1, now, times=now)[0]) for now in range(50)}
    assert found == {Park}


def test_a_bad_body_that_blocks_is_told_each_time_however_many_do(make, events):
    listener = make(lambda value, attempt: Ack(), decode=known_body)
    assert {type(run_garbage(listener, key, 0.0)[0]) for key in range(60)} == {Block}
    assert len([e for e in events if e["event"] == "message.blocked"]) == 60


def test_a_body_that_cannot_be_decoded_is_poison_at_once(make):
    listener = make(Script(Ack()), decode="json", on_poison="park_key")
    assert isinstance(listener.run(message(7)), Park)


@pytest.mark.parametrize(
    ("named", "kind"),
    [({json.JSONDecodeError: "skip"}, Skip), ({OSError: "skip"}, Park), ({}, Park)],
)
def test_a_decoders_class_may_have_a_policy_of_its_own(make, named, kind):
    listener = make(Script(Ack()), decode="json", on_poison="park_key", on_error=named)
    assert isinstance(listener.run(message(7)), kind)


def test_an_outage_gives_up_nothing_and_holds_back_without_counting(make, events, monkeypatch):
    second, down = 0.0, True

    def ship(message, attempt):
        if down:
            raise OSError("down")
        return Ack()

    def deliver():
        contexts = [ConsumeContext(QUEUE, "g", key=key) for key in range(20)]
        answers = [listener([message(context.key)], context) for context in contexts]
        return answers, [context for context in contexts if context.untried]

    monkeypatch.setattr(listeners, "_now", lambda: second)
    listener = make(ship, poison=RULES, on_poison="skip")
    held = 0
    for second in range(60):  # noqa: B007
        answers, waiting = deliver()
        assert set(answers) == {SUSPEND}
        assert all(context.finished == set() for context in waiting)
        held += len(waiting)
    assert held > 500
    told = [e["event"] for e in events]
    assert told.count("circuit.opened") >= 1
    assert "message.poison" not in told
    outage = [e for e in events if e["event"] == "message.retry" and e["finding"] == "OUTAGE"]
    assert not [e for e in outage if e["in_place"] or e["seconds"] < 0.5]

    down = False
    for second in range(60, 120):  # noqa: B007
        answers, waiting = deliver()
    assert (set(answers), waiting) == ({SUCCESS}, [])
    told = [e["event"] for e in events]
    assert told.count("circuit.closed") == told.count("circuit.opened")


def after_an_outage(make, function, **settings):
    """A listener that holds keys 0 to 19 back, which fail alike; one may probe a second later."""
    down = True

    def ship(message, attempt):
        if down:
            raise OSError("down")
        return function(message, attempt)

    listener = make(ship, **settings)
    for key in range(20):
        listener.run(message(key), now=0.0, context=ConsumeContext(QUEUE, "g", key=key))
    assert listener.listener._judge.memory("g")._verdicts.open_circuits
    down = False
    return listener


@pytest.mark.parametrize("answer", [Skip("old"), Suspend(5), Block("r"), DeadLetter("r")])
def test_a_probe_that_says_nothing_of_the_handler_lets_the_next_one_through(make, answer):
    listener = after_an_outage(make, Script(answer))
    for key in range(20):
        context = ConsumeContext(QUEUE, "g", key=key)
        assert listener.run(message(key), now=9.0, context=context) == answer


def test_a_probe_whose_lock_was_not_renewed_lets_the_next_one_through(make):
    retry = Retry(stop=tenacity.stop_never, extend=True, max_seconds=300)
    listener = after_an_outage(make, Script(Ack()), retry=retry)
    memory = listener.listener._judge.memory("g")
    ownership = QueueOwnership(ConnectionLost("gone"))
    probe, nxt = (ConsumeContext(QUEUE, "g", key=key, ownership=ownership) for key in (0, 1))
    memory._trying[QUEUE, 0] = UnsettledMessage(0, ownership, 0.0, "down", retrying=True)
    assert isinstance(listener.run(message(0), now=9.0, context=probe), Suspend)
    assert ownership.extended == 1
    assert listener.run(message(1), now=9.0, context=nxt) == Ack()


def test_a_key_that_never_failed_is_not_held_back_with_them(make):
    listener = after_an_outage(make, Script(Ack()))
    held = ConsumeContext(QUEUE, "g", key=0)
    assert isinstance(listener.run(message(0), now=0.5, context=held), Suspend)
    for key in range(20, 120):
        context = ConsumeContext(QUEUE, "g", key=key)
        assert listener.run(message(key), now=0.5, context=context) == Ack()


@pytest.mark.parametrize("lost", [True, False])
def test_a_probe_that_is_cancelled_with_its_queue_lets_the_next_one_through(lost):
    async def play():
        started, ownership = asyncio.Event(), QueueOwnership()

        async def ship(message, attempt):
            if message.queue_offset == 50:
                started.set()
                await asyncio.sleep(60)
            return Ack()

        listener = AsyncListener(ship)
        listener._judge.memory("g")._verdicts._throttle.turn_on(-1e6)  # one key a second
        context = ConsumeContext(QUEUE, "g", key="p", ownership=ownership)
        task = asyncio.create_task(listener.run(message(50), now=9.0, context=context))
        await started.wait()
        if lost:
            ownership.lost.set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other = ConsumeContext(QUEUE, "g", key="n")
        return await listener.run(message(51), now=9.0, context=other)

    assert (asyncio.run(play()) == Ack()) is lost  # of one that hangs `call_failed` is to tell


def test_a_wait_that_the_error_asks_for_is_heard(make):
    def ship(message, attempt):
        error = OSError("busy")
        error.retry_after = 7 if message.queue_offset == 1 else 300
        raise error

    listener = make(ship)
    assert listener.run(message(1), now=1.0).seconds == 7
    assert listener.run(message(2), now=1.0).seconds == 300
    assert make(ship, poison=None).run(message(2), now=1.0).seconds == 300


def test_a_function_that_leaves_by_sys_exit_is_judged(make):
    def ship(message, attempt):
        if message.queue_offset == 7:
            sys.exit(1)
        return Ack()

    exits = make(ship, poison=RULES, retry=ONCE, on_poison="park_key")
    assert isinstance(until_poison(exits), Park)


def test_a_fatal_failure_that_spreads_waits_and_is_not_retried_in_place(make, events):
    listener = make(Script(ValueError("bad deploy")), on_error={ValueError: "block"})
    for key in ("a", "b"):
        listener.run(message(0), now=1.0, context=ConsumeContext(QUEUE, "g", key=key))
    assert [(e["event"], e.get("in_place")) for e in events][-1] == ("message.retry", False)


def known(listener, context):
    """Whether anything is known of the lane's message as failing."""
    memory = listener.listener._judge.memory(context.group)
    lane = context.message_queue, context.key
    return lane in memory._trying, lane in memory._verdicts._failing.suspects


def test_nothing_is_kept_of_a_message_that_is_settled(make, context):
    listener = make(Script(OSError(), Ack(), OSError(), Skip("spam")))
    for number in (1, 2):
        listener.run(message(0), attempt=1, now=2.0 * number, context=context)
        assert known(listener, context) == (True, True)
        listener.run(message(0), attempt=2, now=2.0 * number + 1, context=context)
        assert known(listener, context) == (False, False)


@pytest.mark.parametrize("answer", [Suspend(5), Block("r"), DeadLetter("r"), Park("r")])
def test_an_answer_that_is_no_failure_is_no_evidence(make, context, answer):
    listener = make(Script(OSError(), answer))
    listener.run(message(0), attempt=1, now=1.0, context=context)
    listener.run(message(0), attempt=2, now=2.0, context=context)
    assert known(listener, context) == (True, False)


def test_a_message_that_is_set_aside_is_no_evidence_against_the_others(make):
    listener = bad_among_good(make, on_poison="park_key")
    assert isinstance(until_poison(listener), Park)
    assert known(listener, ConsumeContext(QUEUE, "g", key="bad")) == (True, False)


def test_groups_do_not_judge_each_other(make):
    listener = make(Script(OSError("down")), poison=RULES, retry=ONCE)
    for key in range(20):
        context = ConsumeContext(QUEUE, "failing", key=key)
        listener.run(message(key), now=1.0, context=context)
    other = ConsumeContext(QUEUE, "other", key=0)
    listener([message(0)], other)
    assert other.untried == set()


# --- a policy of the user's ---------------------------------------------------------------------


def test_a_users_policy_gets_the_verdict_and_decides(make):
    seen = []

    def policy(message, attempt, verdict):
        seen.append((message.queue_offset, attempt.number, verdict.reason.name))
        return DeadLetter("mine")

    listener = make(Script(ValueError()), on_error={ValueError: policy}, retry=ONCE)
    assert listener.run(delivered(2, 7)) == DeadLetter("mine")
    assert seen == [(7, 3, "FATAL")]


@pytest.mark.parametrize(
    "answer", [None, "skip", Skip, ConsumeResult.SUCCESS, Suspend(31), OSError()]
)
def test_a_policy_that_fails_blocks_and_is_told(make, events, answer):
    def policy(message, attempt, verdict):
        if isinstance(answer, OSError):
            raise answer
        return answer

    outcome = make(Script(ValueError()), on_error={ValueError: policy}, retry=ONCE).run(
        message(7), context=ConsumeContext(QUEUE)
    )
    assert isinstance(outcome, Block)
    told = [e["event"] for e in events]
    assert told == [
        "poison_policy.failed",
        "message.poison",
        "message.blocked",
    ]


def test_a_policy_that_answers_fail_is_asked_again_when_the_message_comes_again(make):
    seen = []

    def policy(message, attempt, verdict):
        seen.append(attempt.number)
        return Fail("not yet") if len(seen) == 1 else Skip("now")

    listener = make(Script(ValueError()), on_error={ValueError: policy}, retry=ONCE)
    assert isinstance(listener.run(delivered(0), now=1.0), Suspend)
    assert known(listener, ConsumeContext(QUEUE, key="k")) == (True, True)
    assert listener.run(delivered(1), now=2.0) == Skip("now")
    assert seen == [1, 2]


# --- replays ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["replayed", "dry_run"])
def test_a_replay_is_done_or_failed_and_no_policy_is_applied(make, events, how):
    listener = make(Script(ValueError("secret")), on_error={ValueError: "skip"}, retry=ONCE)
    context = ConsumeContext(QUEUE, "g", key="k", **{how: True})
    answer = listener([message(0), message(1)], context)
    assert isinstance(answer, Fail)
    assert answer.reason.startswith("ValueError")
    assert "secret" not in answer.reason
    assert (context.finished, context.untried, context.suspend_seconds) == (set(), {1}, None)
    assert [e["event"] for e in events] == ["message.replay_failed"]


def test_replays_neither_feed_the_verdict_nor_wait_for_it(make):
    listener = make(Script(OSError("down")), poison=RULES, retry=ONCE)
    for key in range(50):
        context = ConsumeContext(QUEUE, "g", key=key, replayed=True)
        listener.run(message(key), now=1.0, context=context)
    live = ConsumeContext(QUEUE, "g", key="live")
    assert listener.run(message(0), now=1.0, context=live).seconds < 2
    for key in range(50):
        listener.run(message(key), now=2.0, context=ConsumeContext(QUEUE, "g", key=key))
    replay = ConsumeContext(QUEUE, "g", key=3, replayed=True)
    assert isinstance(listener.run(message(3), now=2.1, context=replay), Fail)


# --- ended from outside, alone, threads ---------------------------------------------------------


def test_a_call_that_was_ended_from_outside_is_a_failure_of_the_first_not_done(
    make, context, events
):
    listener = make(Script(Ack()))
    context.done(message(0))
    answer = listener.listener.call_failed(
        [message(0), message(1), message(2)], context, HandlerHung("10 s")
    )
    assert answer is SUSPEND
    assert (context.finished, context.untried) == ({0}, {2})
    assert events[0]["offset"] == 1


def test_alone_one_run_knows_nothing_of_the_others_unless_it_has_a_clock(make):
    called = []

    def ship(message, attempt):
        called.append(message.queue_offset)
        raise OSError("down")

    listener = make(ship)
    for _ in range(2):
        for offset in range(10):
            assert isinstance(listener.run(message(offset, key=str(offset))), Suspend)
    assert len(called) == 20
    for _ in range(2):
        for offset in range(10):
            listener.run(message(offset, key=str(offset)), now=1.0)
    assert len(called) < 40, "those that fail alike are held back"


def test_alone_it_takes_a_message_as_a_producer_sends_it(make):
    seen = []

    def ship(message, attempt):
        seen.append((message.body, message.sharding_key, message.tags, attempt.key, attempt.number))
        return Ack()

    sent = Message("orders", b"paid", sharding_key=7, tags="t", properties={"p": "1"})
    assert make(ship).run(sent, attempt=3) == Ack()
    assert seen == [(b"paid", "7", "t", "7", 3)]


def test_keys_side_by_side_do_not_mix(context):
    together = threading.Barrier(4, timeout=10)

    def ship(message, attempt):
        together.wait()
        return Ack() if message.queue_offset % 2 else Fail("not yet")

    shared, answers = Listener(ship), {}

    def run(offset):
        answers[offset] = shared([message(offset)], ConsumeContext(QUEUE, key=offset))

    threads = [threading.Thread(target=run, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == {0: SUSPEND, 1: SUCCESS, 2: SUSPEND, 3: SUCCESS}
