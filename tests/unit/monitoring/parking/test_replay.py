"""A parked key replayed by this process: what runs, what does not, and what is on record then."""

from dataclasses import replace

import pytest

from orderly import Ack, Client, ClientConfig, ConsumeResult, Fail, Suspend
from orderly.errors import LockLost
from orderly.monitoring.parked import ParkedMessages
from orderly.monitoring.parking import queue, replay
from orderly.ordering.calls import MaxOffset, MinOffset, ReadParked
from tests.support.replayed import handle


def bodies(parked, key="a"):
    return [found.original.body for found in parked.show(key)]


def test_an_interrupted_replay_goes_on_where_it_was(parked, owner):
    owner.hand_on()

    def interrupted(messages, context):
        if messages[0].body == b"two":
            raise KeyboardInterrupt
        return handle(messages, context)

    with pytest.raises(KeyboardInterrupt):
        parked.replay("a", interrupted)
    assert bodies(parked) == [b"two", b"three"]
    owner.take()


def test_a_replay_that_loses_the_lock_writes_nothing_more(orderly_fake, parked, owner, new_owner):
    owner.hand_on()
    ends = []
    with Client(namesrv=orderly_fake.namesrv) as client:
        other = new_owner(by=client)

        def overtaken(messages, context):
            if not ends:
                orderly_fake.jump_clock(61)  # its lease
                other.take()
                ends.append(client.brokers.max_offset(other.state_queue))
            return handle(messages, context)

        with pytest.raises(LockLost):
            parked.replay("a", overtaken)
        assert ends == [client.brokers.max_offset(other.state_queue)]
        assert bodies(parked) == [b"one", b"two", b"three"]
        other.record()


def test_a_replayed_message_is_seen_in_the_namespace(orderly_fake, owner):
    """As it was live: a handler that goes by `message.topic` sees the same name."""
    owner.hand_on()
    seen = []

    def look(messages, context):
        seen.append(messages[0].namespace)
        return Ack()

    with Client(ClientConfig(namesrv=orderly_fake.namesrv, namespace="ns")) as client:
        ParkedMessages(client, "shipping").replay("a", look)
    assert seen == ["ns"] * 3


def test_a_replayed_key_is_not_parked_any_more(parked, owner):
    owner.hand_on()
    assert parked.replay("a", handle)[0].settled == 3
    assert parked.keys() == ()


@pytest.mark.parametrize("answer", [None, True, ConsumeResult.SUSPEND, Suspend(1), Fail("no")])
def test_only_an_acknowledgement_goes_on(parked, owner, answer):
    owner.hand_on()
    (outcome,) = parked.replay("a", lambda *_: answer)
    assert (outcome.settled, outcome.failed_at) == (0, 0)
    why = answer.reason if isinstance(answer, Fail) else f"the handler answered {answer!r}"
    assert outcome.reason == why
    assert bodies(parked) == [b"one", b"two", b"three"]


def test_success_is_an_acknowledgement_too(parked, owner):
    owner.hand_on()
    assert parked.replay("a", lambda *_: ConsumeResult.SUCCESS)[0].settled == 3


def test_a_replay_takes_no_queue_that_a_member_holds(orderly_fake, owner):
    end = owner.perform(MaxOffset(owner.state_queue))
    with Client(namesrv=orderly_fake.namesrv) as client:
        onlooker = ParkedMessages(client, "shipping")
        with pytest.raises(LockLost, match="held by a member of group shipping"):
            onlooker.replay("a", handle)
    assert owner.perform(MaxOffset(owner.state_queue)) == end


def test_a_long_replay_renews_its_lock(parked, owner, monkeypatch):
    monkeypatch.setattr(replay, "_RENEW_AFTER", 0.0)
    owner.hand_on()
    deadlines = []
    parked.replay("a", lambda _, context: deadlines.append(context.deadline) or Ack())
    assert deadlines == sorted(set(deadlines))
    assert len(deadlines) == 3


def test_a_handler_of_a_replay_can_extend_its_lock(parked, owner):
    owner.hand_on()
    deadlines = []

    def extending(messages, context):
        deadlines.append((context.deadline, context.extend()))
        return handle(messages, context)

    assert parked.replay("a", extending)[0].settled == 3
    assert all(before < after for before, after in deadlines)


def test_what_the_handler_named_done_is_acknowledged(parked, owner):
    owner.hand_on()
    (outcome,) = parked.replay("a", lambda messages, context: context.done(messages[0]))
    assert (outcome.settled, outcome.reason) == (3, None)


def test_a_handler_that_exits_has_failed(parked, owner):
    owner.hand_on()

    def leave(messages, context):
        raise SystemExit(0)

    (outcome,) = parked.replay("a", leave)
    assert (outcome.settled, outcome.failed_at, outcome.reason) == (0, 0, "SystemExit: 0")
    assert bodies(parked) == [b"one", b"two", b"three"]


def test_what_its_queue_will_deliver_again_is_not_replayed(parked, owner):
    owner.low = 2  # the owner died after it had parked "three", before it had that on record
    owner.hand_on()
    ran = []
    (outcome,) = parked.replay("a", lambda messages, _: ran.append(messages[0].body) or Ack())
    assert (outcome.settled, outcome.reason) == (2, None)
    assert ran == [b"one", b"two"]
    assert parked.keys() == ()
    assert owner.take().low == 2, "three comes live"


@pytest.fixture
def performing(monkeypatch):
    """Have another function answer the calls of onlookers; it gets the true answer, too."""
    true_performer = queue.performer

    def install(answer):
        def performer(*args):
            perform = true_performer(*args)
            return lambda call: answer(call, perform(call))

        monkeypatch.setattr(queue, "performer", performer)

    return install


def test_what_the_broker_has_deleted_stops_it_once(parked, owner, performing):
    owner.hand_on()

    def deleted(call, answer):
        if isinstance(call, MinOffset):
            return 2
        if isinstance(call, ReadParked):
            left = tuple(m for m in answer.messages if m.queue_offset >= 2)
            return replace(answer, messages=left)
        return answer

    performing(deleted)
    (outcome,) = parked.replay("a", handle)
    assert (outcome.settled, outcome.failed_at) == (0, 0)
    assert "deleted about 2 of its messages" in outcome.reason
    assert parked.list().keys[0].recorded == 3, "it is still parked"
    (outcome,) = parked.replay("a", handle)
    assert (outcome.settled, outcome.reason) == (1, None)


def test_what_cannot_be_found_yet_is_waited_for(parked, owner, performing):
    """A broker shows what it has stored a moment later."""
    owner.hand_on()
    looks = []

    def late(call, answer):
        if call != MaxOffset(owner.park_queue):
            return answer
        looks.append(answer)
        return answer if len(looks) > 3 else 1

    performing(late)
    (outcome,) = parked.replay("a", handle)
    assert (outcome.settled, outcome.reason) == (3, None)
