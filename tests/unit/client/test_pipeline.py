"""Many questions at once: answers in order, a cap, one deadline, and what a silent server costs."""

from __future__ import annotations

import itertools
import math
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.client.pipeline import Gate, NotAsked, Pipeline, Question, RequestLimits
from orderly.errors import BrokerError, ConnectFailed, ConnectionLost, ProtocolError, RequestTimeout
from orderly.protocol.frame import reply_to, request
from tests.support.interruptions import at_each_step
from tests.support.waiting import eventually

STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "answer", "fail", "begin"]), st.floats(0.0, 0.3)),
    max_size=80,
)


def drive(limits, steps):
    """Do what is allowed of `steps`; yields (gate, step, flying, now, sent) after each."""
    gate, flying, now = Gate(limits), 0, 0.0
    for step, pause in steps:
        now += pause
        sent = step == "send" and gate.wait(now) == 0.0
        if sent:
            gate.sent(now)
            flying += 1
        elif step in ("answer", "fail") and flying:
            flying -= 1
            gate.answered() if step == "answer" else gate.failed()
        elif step == "begin":
            gate.begin()
        yield gate, step, flying, now, sent


@given(STEPS, st.integers(1, 5))
def test_never_more_than_the_cap_is_in_flight(steps, cap):
    for _, _, flying, _, _ in drive(RequestLimits(in_flight=cap), steps):
        assert flying <= cap


@given(STEPS, st.floats(1.0, 50.0))
def test_two_sends_are_never_closer_than_the_pace(steps, per_second):
    limits = RequestLimits(in_flight=1000, per_second=per_second)
    times = [now for _, _, _, now, sent in drive(limits, steps) if sent]
    for before, after in itertools.pairwise(times):
        assert after - before >= 1.0 / per_second - 1e-9


@given(STEPS, st.integers(1, 4))
def test_after_so_many_failures_in_a_row_nothing_goes_until_the_next_round(steps, most):
    failures, rounds_failures = 0, 0
    for gate, step, _, now, sent in drive(RequestLimits(give_up_after=most), steps):
        if sent:
            assert failures < most or rounds_failures == 0
        if step == "begin":
            rounds_failures = 0
        failures, rounds_failures = _count(step, gate, failures, rounds_failures)
        if gate.shut:
            assert gate.wait(now) == math.inf


def _count(step, gate, failures, rounds_failures):
    if step == "fail" and gate._failures > failures:
        return failures + 1, rounds_failures + 1
    if gate._failures == 0:
        return 0, 0
    return failures, rounds_failures


def given_up(limits):
    gate = Gate(limits)
    for _ in range(limits.give_up_after):
        gate.sent(0.0)
        gate.failed()
    assert gate.shut
    return gate


def test_the_next_round_sends_one_probe_and_no_more_until_it_is_answered():
    gate = given_up(RequestLimits())
    gate.begin()
    assert gate.wait(1.0) == 0.0
    gate.sent(1.0)
    assert gate.wait(1.0) == math.inf
    gate.answered()
    assert gate.wait(1.0) == 0.0
    assert not gate.shut


def test_a_probe_that_fails_ends_the_round():
    gate = given_up(RequestLimits())
    gate.begin()
    gate.sent(1.0)
    gate.failed()
    assert gate.shut
    gate.begin()
    assert not gate.shut


def test_a_success_in_between_starts_the_count_again():
    gate = Gate(RequestLimits(give_up_after=2))
    for step in (gate.failed, gate.answered, gate.failed):
        gate.sent(0.0)
        step()
    assert not gate.shut


def test_an_address_that_cannot_be_reached_is_given_up_at_once():
    gate = Gate(RequestLimits())
    gate.give_up()
    assert gate.shut


def test_a_healthy_address_is_not_slowed_by_a_new_round():
    gate = Gate(RequestLimits(in_flight=2))
    gate.begin()
    gate.sent(0.0)
    assert gate.wait(0.0) == 0.0


CODE = 43
SHORT = 6.0  # seconds: where somebody keeps silent, and others must answer in time


def questions(count, code=CODE, read=lambda reply: int(reply.ext["n"])):
    return [Question(request(code, {"n": str(n)}), read, f"number {n}") for n in range(count)]


def echo(command):
    return reply_to(command, ext={"n": command.ext["n"]})


def soon(seconds=60.0):
    return time.monotonic() + seconds


@pytest.fixture
def pipeline(client):
    def new(**limits):
        return Pipeline(client.connections, RequestLimits(**({"patience": 30.0} | limits)))

    return new


def test_answers_stand_at_the_place_of_their_questions(new_server, pipeline):
    server = new_server()
    server.on(CODE, echo)
    assert pipeline(in_flight=4).ask(server.address, questions(50), soon()) == list(range(50))


def test_a_round_that_is_interrupted_takes_no_place_of_the_next_one(new_server, pipeline):
    server = new_server()
    server.on(CODE, echo)
    asking = pipeline(in_flight=1)

    def check(_step, _place):
        asking.begin()
        assert asking.ask(server.address, questions(2), soon()) == [0, 1]

    at_each_step(lambda _: asking.ask(server.address, questions(2), soon()), check, 3)


def test_no_more_than_the_cap_waits_for_an_answer(new_server, pipeline):
    server, held, answers = new_server(), [], []
    server.on(CODE, held.append)  # answered below
    asking = threading.Thread(
        target=lambda: answers.extend(
            pipeline(in_flight=3).ask(server.address, questions(10), soon())
        )
    )
    asking.start()
    for number in range(10):
        eventually(lambda: len(held) >= min(10, number + 3))  # noqa: B023 - called at once
        assert len(held) <= number + 3
        server.push(echo(held[number]))
    asking.join(60)
    assert answers == list(range(10))


def test_a_silent_server_costs_one_time_out_not_one_a_question(new_server, pipeline):
    server = new_server()
    server.on(CODE, lambda _: None)
    answers = pipeline(in_flight=8, patience=0.3).ask(server.address, questions(100), soon())
    assert len(server.requests(CODE)) <= 8, "those that were under way"
    assert isinstance(answers[0], RequestTimeout)
    assert "not asked" in str(answers[-1])
    assert answers[-1].__cause__ is not None


def test_a_server_given_up_is_probed_once_a_round_until_it_answers(new_server, pipeline):
    server = new_server()
    server.on(CODE, lambda _: None)
    asking = pipeline(in_flight=8, patience=0.2)
    asking.ask(server.address, questions(8), soon())
    asking.begin()
    asking.ask(server.address, questions(8), soon())
    assert asking.counts() == {CODE: 1}
    server.on(CODE, echo)

    def is_answered():
        asking.begin()
        return asking.ask(server.address, questions(8), soon()) == list(range(8))

    eventually(is_answered)


def test_the_deadline_holds_for_all_questions_together(new_server, pipeline):
    server = new_server()
    server.on(CODE, lambda _: None)
    started = time.monotonic()
    answers = pipeline(patience=60.0).ask(server.address, questions(3), soon(0.3))
    assert 0.2 < time.monotonic() - started < 30.0
    assert all(isinstance(answer, RequestTimeout | NotAsked) for answer in answers)


def test_nothing_is_sent_after_the_deadline(new_server, pipeline):
    server = new_server()
    (answer,) = pipeline().ask(server.address, questions(1), time.monotonic() - 1.0)
    assert isinstance(answer, NotAsked)
    assert server.received == []


def test_a_pace_spreads_the_questions(new_server, pipeline):
    server = new_server()
    server.on(CODE, echo)
    started = time.monotonic()
    assert pipeline(per_second=50.0).ask(server.address, questions(11), soon()) == list(range(11))
    assert time.monotonic() - started >= 0.2


def test_a_no_is_the_answer_of_its_question_alone(new_server, pipeline):
    server = new_server()
    server.on(CODE, lambda c: echo(c) if c.ext["n"] != "1" else reply_to(c, 16, remark="refused"))
    first, second, third = pipeline().ask(server.address, questions(3), soon())
    assert (first, third) == (0, 2)
    assert isinstance(second, BrokerError)
    assert "number 1" in str(second)


def test_refusals_do_not_make_a_server_silent(new_server, pipeline):
    server = new_server()
    server.on(CODE, code=16, remark="refused")
    pipeline(in_flight=1).ask(server.address, questions(10), soon())
    assert len(server.requests(CODE)) == 10


def test_a_reply_that_cannot_be_read_is_an_error_of_its_question(new_server, pipeline):
    server = new_server()
    server.on(CODE, echo)
    (answer,) = pipeline().ask(server.address, questions(1, read=lambda _: 1 // 0), soon())
    assert isinstance(answer, ProtocolError)


def test_a_server_that_cannot_be_reached_is_tried_once(new_server, pipeline):
    server = new_server()
    server.close()
    answers = pipeline().ask(server.address, questions(5), soon())
    assert isinstance(answers[0], ConnectFailed)
    assert all("not asked" in str(answer) for answer in answers[1:])


def test_one_lost_connection_is_one_failure_whatever_it_took_along(new_server, pipeline):
    server, held = new_server(), []
    server.on(CODE, lambda c: held.append(c) if len(held) < 4 else echo(c))
    threading.Thread(
        target=lambda: (eventually(lambda: len(held) == 4), server.cut()), daemon=True
    ).start()
    answers = pipeline(in_flight=4).ask(server.address, questions(8), soon())
    assert all(isinstance(answer, ConnectionLost) for answer in answers[:4])
    assert answers[4:] == [4, 5, 6, 7]


def test_a_connection_that_died_before_the_round_is_no_failure(new_server, pipeline):
    server = new_server()
    server.on(CODE, echo)
    asking = pipeline(in_flight=4)
    assert asking.ask(server.address, questions(1), soon()) == [0]
    first = server.received[0][0]

    def dead_on_the_first(command):
        if server.received[-1][0] == first:
            raise ConnectionResetError
        return echo(command)

    server.on(CODE, dead_on_the_first)
    assert asking.ask(server.address, questions(8), soon()) == list(range(8))


def test_a_hanging_server_does_not_hold_up_the_others(new_server, pipeline):
    slow, quick, answered = new_server(), new_server(), []
    slow.on(CODE, lambda c: eventually(lambda: len(answered) == 3) and echo(c))
    quick.on(CODE, echo)
    asked = {
        slow.address: questions(3),
        quick.address: questions(3, read=lambda reply: answered.append(reply) or "read"),
    }
    answers = pipeline(patience=60.0).ask_each(asked, soon())
    assert answers == {slow.address: [0, 1, 2], quick.address: ["read"] * 3}


def test_requests_are_counted_by_code_and_address(new_server, pipeline):
    one, other = new_server(), new_server()
    for server in (one, other):
        server.on(CODE, echo)
        server.on(21, echo)
    asking = pipeline()
    asking.begin()
    asking.ask_each({one.address: questions(2), other.address: questions(1, code=21)}, soon())
    assert asking.counts() == {CODE: 2, 21: 1}
    assert asking.traffic(one.address).requests == {CODE: 2}
    assert 0.0 < asking.traffic(one.address).seconds < 60.0


def test_the_silence_of_a_member_is_not_taken_for_the_brokers(new_server, pipeline):
    server = new_server()
    server.on(CODE, lambda _: None)
    server.on(21, echo)
    asked = [Question(q.command, q.read, q.what, relayed=True) for q in questions(8)] + questions(
        4, code=21
    )
    answers = pipeline(in_flight=4, patience=SHORT).ask(server.address, asked, soon())
    assert all(isinstance(answer, RequestTimeout) for answer in answers[:4])
    assert answers[8:] == [0, 1, 2, 3]


def test_few_members_that_keep_silent_take_up_threads_of_the_broker(new_server, pipeline):
    server = new_server()
    server.on(CODE, lambda _: None)
    asked = [Question(q.command, q.read, q.what, relayed=True) for q in questions(32)]
    asking = pipeline(patience=SHORT)
    answers = asking.ask(server.address, asked, soon())
    assert len(server.requests(CODE)) == 4
    assert all(isinstance(answer, NotAsked) for answer in answers[4:])
    asking.begin()
    server.on(CODE, echo)
    asked = [Question(q.command, q.read, q.what, relayed=True) for q in questions(32)]
    assert asking.ask(server.address, asked, soon()) == list(range(32)), "one probe, then the rest"
