"""Commands about parked keys: what is told while they are awaited, and how the wait ends."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.errors import OrderlyError
from orderly.monitoring import park_command_sender as sender
from orderly.protocol.codes import RequestCode
from orderly.protocol.park_record import Command, Result, Verb
from orderly.testing import Cut, Fail, Fault


def done(settled):
    """What an owner says of a command in the end."""
    return lambda command: Result(command.id, done=True, settled=settled)


def on_its_way(settled):
    """What it says before that."""
    return lambda command: Result(command.id, done=False, settled=settled)


def another(command):
    return Result(f"not {command.id}", done=True, settled=9)


@pytest.fixture
def answered(owner):
    """Have the owner say so much about the next command, as soon as that is sent."""
    at = owner.end()
    return lambda *results: lambda _: owner.answer(at, *results)


def test_the_wait_ends_with_the_result_of_this_command_only(parked, answered):
    progress, on_sent = [], answered(another, on_its_way(2), done(3))
    (outcome,) = parked.release("a", on_progress=progress.append, on_sent=on_sent)
    assert (outcome.settled, outcome.failed_at, outcome.refused) == (3, None, False)
    assert progress == [2]


def test_silence_is_an_error_that_says_that_the_command_stays(parked, owner):
    at = owner.end()
    with pytest.raises(OrderlyError, match=r"no member .* is online.* The command \(try\) stays"):
        parked.try_("a", patience=0.1)
    assert len(owner.records(at)) == 1


def test_who_will_run_it_is_told_before_the_wait(parked, owner):
    told = []
    with pytest.raises(OrderlyError):
        parked.drop("a", patience=0.1, on_sent=told.append)
    (text,) = told
    assert text.startswith("drop of key 'a' is sent to the owner of orders/broker-a/0: no member")


def test_an_interrupted_wait_says_that_the_command_stays(parked, owner):
    at = owner.end()

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(OrderlyError, match=r"interrupted.* The command \(drop\) stays"):
        parked.drop("a", on_sent=interrupt)
    assert len(owner.records(at)) == 1


BROKEN = Fail(1, "disk on fire")


def test_a_broker_that_fails_for_a_while_does_not_end_the_wait(parked, answered, orderly_fake):
    answer, told = answered(done(3)), []

    def on_sent(text):
        answer(text)
        looks = Fault(RequestCode.PULL_MESSAGE, BROKEN, times=2, when=lambda _: not told.append(1))
        orderly_fake.script(looks)

    (outcome,) = parked.release("a", on_sent=on_sent)
    assert (outcome.settled, len(told)) == (3, 2)


def test_a_broker_that_goes_on_failing_is_named_at_the_end_of_the_wait(parked, owner, orderly_fake):
    def on_sent(_):
        orderly_fake.script(Fault(RequestCode.PULL_MESSAGE, BROKEN, times=None))

    with pytest.raises(OrderlyError, match=r"disk on fire.* The command \(release\) stays"):
        parked.release("a", patience=0.5, on_sent=on_sent)


@pytest.fixture
def _maybe_online(orderly_fake):
    """No broker says who is online: so there may be somebody."""
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    orderly_fake.script(Fault(code, BROKEN, times=None))


@pytest.mark.usefixtures("_maybe_online")
def test_to_add_a_key_the_owners_of_all_queues_are_asked(parked, owner, answered):
    told, answer = [], answered(done(2))
    added = parked.add("b", on_sent=lambda text: (told.append(text), answer(text)))
    assert [(o.queue, o.key, o.settled, o.reason) for o in added.outcomes] == [
        (owner.queue, "b", 2, None)
    ]
    assert (added.read, added.unknown) == ((owner.queue,), ())
    assert told[0].startswith("add of key 'b' is sent to the owners of 1 queue of orders: ")


@pytest.mark.usefixtures("_maybe_online")
@pytest.mark.parametrize(
    ("words", "why"), [((), "no owner answered"), ((on_its_way(0),), "has taken the command")]
)
def test_an_owner_that_does_not_answer_is_not_known(parked, owner, answered, words, why):
    added = parked.add("b", dry_run=True, patience=0.5, on_sent=answered(*words))
    assert (added.outcomes, added.read) == ((), ())
    ((queue, error),) = added.unknown
    assert queue == owner.queue
    assert why in str(error)


@pytest.mark.usefixtures("_maybe_online")
def test_a_broker_that_takes_no_command_is_asked_once(client, parked, owner, orderly_fake):
    asked = []
    (broker,) = client.routes.get(owner.park_queue.topic).brokers
    config = client.admin.topic_config(owner.park_queue.topic, broker)
    client.admin.put_topic(replace(config, read_queues=3, write_queues=3), broker)
    client.routes.refresh(owner.park_queue.topic)
    for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        orderly_fake.script(Fault(code, Cut(), times=None, when=lambda c: not asked.append(c)))
    added = parked.add("b")
    assert len(asked) == 1
    assert [queue.queue_id for queue, _ in added.unknown] == [0, 1, 2]
    assert len({str(error) for _, error in added.unknown}) == 1


def test_of_several_topics_one_must_be_named(client, parked, owner, new_owner):
    new_owner("payments")
    with pytest.raises(OrderlyError, match="several topics: orders, payments"):
        parked.add("b")


# --- several keys at once -------------------------------------------------------------------------


@pytest.fixture
def sleeps(monkeypatch):
    """What is done in place of each pause."""

    def instead(act):
        clock = SimpleNamespace(sleep=act, monotonic=time.monotonic, time=time.time)
        monkeypatch.setattr(sender, "time", clock)

    return instead


def ends_of(parked, owner, keys, **settings):
    wanted = [(owner.queue, key) for key in keys]
    return [(key, end) for _, key, end in parked.release_each(wanted, **settings)]


def test_in_a_queue_one_key_is_released_after_the_other(parked, owner, sleeps):
    at = sent = owner.end()
    order = []

    def answer(_):
        nonlocal sent
        assert len([r for r in owner.records(sent) if isinstance(r, Command)]) == 1, "one under way"
        order.append(owner.answer(sent, on_its_way(1), done(len(order))).key)
        sent = owner.end()

    sleeps(answer)
    ends = ends_of(parked, owner, ["b", "a", 7])
    assert order == ["b", "a", 7]
    assert [(key, end.settled, end.refused) for key, end in ends] == [
        ("b", 0, False), ("a", 1, False), (7, 2, False),
    ]  # fmt: skip
    verbs = {r.verb for r in owner.records(at) if isinstance(r, Command)}
    assert verbs == {Verb.RELEASE}


def test_a_queue_that_is_silent_is_given_up_and_no_more_commands_are_sent(parked, owner):
    at = owner.end()
    (_, first), (_, second) = ends_of(parked, owner, ["a", "b"], dry_run=True, patience=0.1)
    assert "no answer within 0.1 s: no member" in str(first)
    assert "The command (try) stays" in str(first)
    assert "not tried: 'a' was not answered" in str(second)
    assert len(owner.records(at)) == 1


@pytest.mark.parametrize("several", [True, False])
def test_an_owner_that_gets_on_is_waited_for_however_long_it_takes(
    several, parked, owner, monkeypatch
):
    """Between two words of it there are 6 s, and the patience is 10 s."""
    at, clock, words = owner.end(), [0.0], [on_its_way(1), on_its_way(2), on_its_way(3), done(4)]

    def pause(_):
        clock[0] += 6.0
        owner.answer(at, words.pop(0))

    told = SimpleNamespace(sleep=pause, monotonic=lambda: clock[0], time=time.time)
    monkeypatch.setattr(sender, "time", told)
    if several:
        ((_, end),) = ends_of(parked, owner, ["a"], patience=10.0)
    else:
        (end,) = parked.release("a", patience=10.0)
    assert (end.settled, words) == (4, [])


def test_of_an_interrupted_wait_it_is_told_which_commands_stay(parked, owner, sleeps):
    def interrupt(_):
        raise KeyboardInterrupt

    sleeps(interrupt)
    with pytest.raises(
        OrderlyError,
        match=r"interrupted only.* about 'a' were sent and will run.* later keys were not",
    ):
        ends_of(parked, owner, ["a", "b"])


def test_a_queue_that_takes_no_command_is_given_up(parked, owner, orderly_fake):
    for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        orderly_fake.script(Fault(code, BROKEN, times=None))
    (_, first), (_, second) = ends_of(parked, owner, ["a", "b"])
    assert "disk on fire" in str(first)
    assert "not tried" in str(second)


def test_without_keys_there_is_nothing_to_wait_for(parked):
    assert list(parked.release_each([])) == []
