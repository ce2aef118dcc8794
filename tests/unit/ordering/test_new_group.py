"""Whether a group is new in a topic: one broker that knows it is enough, that it is new all say."""

from dataclasses import dataclass, field, replace

import pytest

from orderly.errors import NoPermission, RequestTimeout, RouteError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import HasOffsets, Peeked, QueueEnds, ReadRecords, converse
from orderly.ordering.new_group import NewGroup, find_new_group
from orderly.protocol.state_record import Acquire, Confirm, encode_record
from tests.support.owners import STATE_QUEUE, StateBroker

QUEUES = tuple(
    MessageQueue("orders", broker, number)
    for broker in ("broker-a", "broker-b")
    for number in range(2)
)
ENDS = {queue: Peeked(1000 + place, 10 + place) for place, queue in enumerate(QUEUES)}
SILENT = RequestTimeout("late")


@dataclass
class Cluster:
    """Answers calls; `knows` are the brokers with an offset of the group.

    Attributes:
        fails: by broker, or by broker and type of call, an error.
        later: brokers that know the group once the ends have been asked for.
        calls: (type of call, broker), as they came.
    """

    knows: set = field(default_factory=set)
    fails: dict = field(default_factory=dict)
    later: set = field(default_factory=set)
    calls: list = field(default_factory=list)

    def __call__(self, call):
        (broker,) = {queue.broker_name for queue in call.queues}
        kind = type(call)
        self.calls.append((kind, broker))
        error = self.fails.get(broker) or self.fails.get((broker, kind))
        if error is not None:
            raise error
        if kind is HasOffsets:
            return broker in self.knows
        self.knows |= self.later
        return {queue: ENDS[queue] for queue in call.queues}


def found(cluster, **options):
    return converse(find_new_group(QUEUES, **options), cluster)


def test_where_no_queue_has_an_offset_the_group_is_new_and_each_end_is_known():
    assert found(Cluster()) == NewGroup(ENDS)


@pytest.mark.parametrize("knowing", ["broker-a", "broker-b"])
def test_an_offset_in_any_queue_makes_the_group_known(knowing):
    assert found(Cluster(knows={knowing})) is None


@pytest.mark.parametrize("silent", ["broker-a", "broker-b"])
def test_a_broker_that_knows_it_is_enough_whoever_is_silent(silent):
    (other,) = {"broker-a", "broker-b"} - {silent}
    assert found(Cluster(knows={other}, fails={silent: SILENT})) is None


@pytest.mark.parametrize("silent", ["broker-a", "broker-b"])
@pytest.mark.parametrize("kind", [HasOffsets, QueueEnds])
@pytest.mark.parametrize("error", [SILENT, NoPermission("no", code=16)])
def test_while_one_is_silent_it_is_not_known_to_be_new(silent, kind, error):
    with pytest.raises(type(error)):
        found(Cluster(fails={(silent, kind): error}))


@pytest.mark.parametrize("beginning", ["broker-a", "broker-b"])
def test_a_group_that_begins_while_we_look_is_known(beginning):
    """The ends may be those of a moment after it began: they would skip what came between."""
    assert found(Cluster(later={beginning})) is None


def test_a_known_group_costs_one_request_and_a_new_one_three_a_broker():
    known, new = Cluster(knows={"broker-a"}), Cluster()
    found(known)
    found(new)
    assert known.calls == [(HasOffsets, "broker-a")]
    asked = [HasOffsets, QueueEnds, HasOffsets]
    assert new.calls == [(kind, b) for kind in asked for b in ("broker-a", "broker-b")]


def test_the_nearest_broker_is_asked_first():
    cluster = Cluster(knows={"broker-b"}, fails={"broker-a": SILENT})
    assert found(cluster, nearest="broker-b") is None
    assert cluster.calls == [(HasOffsets, "broker-b")]


# --- by key: what is on record -------------------------------------------------------------------


def on_record(log, missing=None):
    """What is found of a topic whose queue 0 at broker-a has such state records, and no offset.

    `missing` is the error of who asks for a state topic that is not there.
    """
    states = StateBroker(log=list(log))

    def perform(call):
        if isinstance(call, ReadRecords):
            return states.answer(call, "me@1")
        if isinstance(call, HasOffsets):
            return False
        if call.queues[0].topic != STATE_QUEUE.topic:
            return {queue: ENDS[queue] for queue in call.queues}
        if missing is not None:
            raise missing
        return {q: Peeked(None, len(log) if q == STATE_QUEUE else 0) for q in call.queues}

    def state_queue_of(queue):
        return replace(queue, topic=STATE_QUEUE.topic)

    return converse(find_new_group(QUEUES, state_queue_of), perform)


def records_of_an_owner():
    broker = StateBroker(offset=None)
    assert broker.taken_over("she@1") is not None
    return broker.log


ATTEMPT = [encode_record(Acquire("she@1")), encode_record(Confirm("she@1", 0))]
NEWER = b"orderly-state 9 entry 00000000 {}"


@pytest.mark.parametrize("missing", [None, TopicNotFound("no topic"), RouteError("not there")])
def test_without_records_the_group_is_new(missing):
    assert on_record([], missing) == NewGroup(ENDS)


def test_while_records_cannot_be_read_it_is_not_known_to_be_new():
    with pytest.raises(RequestTimeout):
        on_record([], SILENT)


def test_who_was_on_record_in_any_queue_is_known():
    """Offsets are deleted with their topic, and records are not."""
    assert on_record(records_of_an_owner()) is None


def test_who_never_got_as_far_as_a_start_is_new():
    assert on_record(ATTEMPT) == NewGroup(ENDS)
    assert on_record(ATTEMPT[:1]) == NewGroup(ENDS)


@pytest.mark.parametrize("record", [b"orderly-state 1 entry 00000000 {}", NEWER])
def test_a_record_that_cannot_be_read_may_be_a_start(record):
    assert on_record([*ATTEMPT, record]) is None
