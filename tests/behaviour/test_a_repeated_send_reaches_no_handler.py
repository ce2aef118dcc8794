"""A copy of a message behind it, because its producer sent it again, is left out (decision 46)."""

import itertools
import time
from collections import Counter
from dataclasses import replace

import pytest

from orderly import Ack, ConsumeResult, DeadLetter, Message, Park, Suspend
from orderly.ordering.lanes import LANE_BODIES
from orderly.protocol import properties as names
from orderly.protocol.park_record import Verb
from tests.support.brokers import delete_topic
from tests.support.consuming import named, unique
from tests.support.messages import send_raw
from tests.support.topics import dead_letters, pulled
from tests.support.waiting import await_visible, eventually

ORDERS = ["queue", "key"]
NEVER = 3600  # only a hand-over saves


class Sends:
    """Stores attempts of sends, as a broker does that reads connections in any order."""

    def __init__(self, client, queue):
        self._client, self._queue = client, queue
        self._ids, self._born = unique("send"), int(time.time() * 1000)

    def __call__(self, number, attempt=1, *, key="a", born=0, body=None, **properties):
        """Store an attempt of message `number`, or what was born so much later; its offset."""
        mark = names.mark(attempt, self._born + number)
        marks = {names.ATTEMPT: mark} if attempt > 1 else {}
        return send_raw(
            self._client,
            self._queue,
            str(number).encode() if body is None else body,
            key=key,
            sys_flag=0,
            born=self._born + number + born,
            **{names.UNIQ_KEY: f"{self._ids}-{key}-{number}"},
            **marks,
            **properties,
        )


@pytest.fixture
def sends(client, queue):
    return Sends(client, queue)


@pytest.fixture(params=ORDERS)
def order(request):
    return request.param


def handled(seen, numbers, key="a"):
    """Wait until the last of `numbers` was handled, and see that these were, and no others."""
    eventually(lambda: seen.numbers(key)[-1:] == [numbers[-1]], within=30)
    assert seen.numbers(key) == numbers


COPIES = {
    "a marked one behind its successor": [(0, 1), (1, 1), (0, 2)],
    "a late first attempt": [(0, 2), (1, 1), (0, 1)],
    "right behind it": [(0, 1), (0, 2), (1, 1)],
    "two marked ones": [(0, 2), (1, 1), (0, 3), (2, 1), (0, 2)],
    "all at once": [(0, 2), (0, 3), (1, 1), (0, 1), (1, 2), (2, 1), (0, 4), (1, 3)],
}


@pytest.mark.parametrize("attempts", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("batch_size", [1, 10])
def test_no_handler_gets_it(start_member, sends, order, attempts, batch_size, topic, events):
    stored = [sends(number, attempt) for number, attempt in attempts]
    last = sends(9)
    member, seen = start_member(order=order, batch_size=batch_size)
    numbers = list(dict.fromkeys(number for number, _ in attempts))
    handled(seen, [*numbers, 9])
    skipped = named(events, "message.repeat_skipped")
    firsts = {}
    for (number, _), offset in zip(attempts, stored, strict=True):
        firsts.setdefault(number, offset)
    copies = [offset for offset in stored if offset not in firsts.values()]
    assert [event["offset"] for event in skipped] == copies
    assert all(event["first"] < event["offset"] for event in skipped)
    assert member.statistics(topic).repeats_skipped == len(copies)
    assert seen.deliveries[-1].offset == last


def test_one_that_comes_while_the_first_is_handled(start_member, sends, order):
    _, seen = start_member(order=order)
    sends(0, 2)
    handled(seen, [0])
    sends(1)
    handled(seen, [0, 1])
    sends(0)
    sends(1, 2)
    sends(2)
    handled(seen, [0, 1, 2])


FOREIGN = {
    "the same id, without a mark": {},
    "marked, but born at another time": {"attempt": 2, "born": 5000},
    "marked, but with another body": {"attempt": 2, "body": b"7"},
}


@pytest.mark.parametrize("what", FOREIGN.values(), ids=FOREIGN)
def test_what_another_program_sends_is_never_left_out(start_member, sends, order, what):
    """Java keeps the id, and all properties, of a received message that is sent again."""
    sends(0)
    sends(1)
    sends(0, **what)
    _, seen = start_member(order=order)
    eventually(lambda: len(seen.numbers("a")) == 3, within=30)
    assert seen.numbers("a") == [0, 1, 7 if "body" in what else 0]


def test_nor_what_it_sends_twice(start_member, sends, order):
    """It goes on with the mark, and with one born time: of a batch, or of one millisecond."""
    for number in (0, 1):
        sends(number)
        sends(number, 2)
    for attempt in (1, 2, 2):
        sends(0, attempt, born=5000)
    sends(2)
    _, seen = start_member(order=order)
    handled(seen, [0, 1, 0, 0, 0, 2])


def test_one_of_another_queue_is_a_message_of_its_own(start_member, sends, client, queue, order):
    sends(0)
    other = Sends(client, replace(queue, queue_id=1))
    other._ids, other._born = sends._ids, sends._born
    other(0, 2)
    _, seen = start_member(order=order)
    eventually(lambda: seen.numbers("a") == [0, 0], within=30)


def test_who_wants_the_raw_log_gets_it(start_member, sends, order):
    attempts = COPIES["all at once"]
    for number, attempt in attempts:
        sends(number, attempt)
    _, seen = start_member(order=order, skip_repeats=False)
    eventually(lambda: len(seen.deliveries) == len(attempts), within=30)
    assert seen.numbers("a") == [number for number, _ in attempts]


@pytest.mark.parametrize("attempts", [(1, 2), (2, 3), (2, 1)], ids=["2nd", "3rd", "late 1st"])
def test_it_is_known_after_a_hand_over(start_member, sends, order, attempts):
    """By queue a late first attempt is not: only marks are known then (promises.md)."""
    first, second = attempts
    sends(0, first)
    member, seen = start_member(order=order, commit_interval=NEVER)
    handled(seen, [0])
    sends(1)
    handled(seen, [0, 1])
    member.close()
    _, heir = start_member(order=order)
    sends(0, second)
    sends(2)
    eventually(lambda: heir.numbers("a")[-1:] == [2], within=30)
    late = order == "queue" and second == 1
    assert heir.numbers("a") == ([0, 2] if late else [2])


def test_a_copy_of_a_parked_message_is_not_parked(start_member, sends, parks, queue):
    offset = sends(0)
    mended = []
    _, seen = start_member(lambda *_: Ack() if mended else Park("no such account"), order="key")
    eventually(lambda: parks.parked(queue, "a") == [offset], within=30)
    behind = sends(1)
    sends(0, 2)
    last = sends(2)
    eventually(lambda: parks.parked(queue, "a") == [offset, behind, last], within=30)
    mended.append(True)
    assert parks.carried_out(queue, Verb.RELEASE, "a").settled == 3
    assert seen.numbers("a")[-3:] == [0, 1, 2]


def test_a_late_copy_of_a_parked_message_is_not_parked(start_member, sends, parks, queue):
    """Nor is what is parked a repeat of it: a release delivers it."""
    offset = sends(0, 2)
    mended = []
    _, seen = start_member(lambda *_: Ack() if mended else Park("no such account"), order="key")
    eventually(lambda: parks.parked(queue, "a") == [offset], within=30)
    sends(0)
    last = sends(1)
    eventually(lambda: parks.parked(queue, "a") == [offset, last], within=30)
    assert seen.numbers("a") == [0]
    mended.append(True)
    assert parks.carried_out(queue, Verb.RELEASE, "a").settled == 2
    assert seen.numbers("a") == [0, 0, 1]


def test_an_operator_parks_no_copies(start_member, sends, parks, queue):
    """The key waits behind a failure, with a copy of what fails among its messages."""
    offsets = [sends(0), sends(1)]
    sends(0, 2)
    offsets.append(sends(2))
    _, seen = start_member(lambda *_: Suspend(30), order="key")
    eventually(lambda: seen.numbers("a") == [0], within=30)
    assert parks.carried_out(queue, Verb.ADD, "a").settled is not None
    eventually(lambda: parks.parked(queue, "a") == offsets, within=30)


def test_dead_letters_count_as_handled(start_member, sends, order):
    sends(0)
    sends(0, 2)
    sends(1)
    failing = lambda messages, _: (  # noqa: E731
        ConsumeResult.SUCCESS if int(messages[0].body) else ConsumeResult.SUSPEND
    )
    _, seen = start_member(failing, order=order, max_reconsume_times=1, suspend=0.05)
    handled(seen, [0, 0, 1])


def test_a_dead_letter_that_is_replayed_is_delivered(
    start_member, sends, orderly, client, topic, group
):
    """It is a new message: it has an id of its own, and no mark."""
    sends(0, 2)
    answers = iter([DeadLetter("no such account")])
    _, seen = start_member(lambda *_: next(answers, Ack()), order="key")
    handled(seen, [0])
    (letter,) = eventually(lambda: dead_letters(client, group), within=30)
    code, _, errors = orderly("dlq", "replay", group, "--yes")
    assert code == 0, errors
    handled(seen, [0, 0])
    sends(0)
    sends(1)
    handled(seen, [0, 0, 1])
    await_visible(client)
    marks = Counter(
        (m.message_id == letter.message_id, names.ATTEMPT in m.properties)
        for m in pulled(client, topic)
        if m.body == b"0"
    )
    assert marks == {(True, True): 1, (True, False): 1, (False, False): 1}
    assert names.ATTEMPT not in letter.properties


def test_what_a_program_seeks_is_delivered(start_member, sends, queue, order):
    """The first copy counts if it is at or above the position that was asked for."""
    first = sends(0)
    sends(1)
    copy = sends(0, 2)
    sends(2)
    member, seen = start_member(order=order)
    handled(seen, [0, 1, 2])
    member.seek(queue, copy)
    eventually(lambda: seen.numbers("a") == [0, 1, 2, 0, 2], within=30)
    member.seek(queue, first)
    eventually(lambda: len(seen.numbers("a")) == 8, within=30)
    assert seen.numbers("a")[5:] == [0, 1, 2]


def test_bodies_that_were_let_go_are_repeats_all_the_same(start_member, sends):
    """Of a key that waits only some bodies are kept; the others are pulled again."""
    count = 2 * LANE_BODIES
    waits = [True]
    for number in range(count):
        sends(number, 1 + number % 2)
        sends(number, 2)
    _, seen = start_member(lambda *_: Suspend(0.1) if waits else Ack(), order="key")
    eventually(lambda: seen.numbers("a"), within=30)
    waits.clear()
    eventually(lambda: seen.numbers("a")[-1:] == [count - 1], within=60)
    assert list(dict.fromkeys(seen.numbers("a"))) == list(range(count))
    assert [number for number, _ in itertools.groupby(seen.numbers("a"))] == list(range(count))


def test_a_filter_changes_nothing(start_member, sends, order):
    sends(0, TAGS="red")
    sends(1, TAGS="blue")
    sends(0, 2, TAGS="red")
    sends(1, 2, TAGS="blue")
    sends(2, TAGS="red")
    _, seen = start_member(order=order, tags="red")
    handled(seen, [0, 2])


def test_what_is_kept_for_a_later_commit_is_in_hand(start_member, sends, order):
    """Under manual commit a repeat of what a handler keeps waits for the word on that."""
    answers = iter([ConsumeResult.SUCCESS, ConsumeResult.SUCCESS, ConsumeResult.ROLLBACK])

    def act(messages, context):
        context.auto_commit = False
        return next(answers, ConsumeResult.COMMIT)

    sends(0)
    sends(1)
    sends(0, 2)
    sends(2)
    _, seen = start_member(act, order=order, suspend=0.05)
    eventually(lambda: len(seen.numbers("a")) == 6, within=30)
    assert seen.numbers("a") == [0, 1, 2, 0, 1, 2]


def test_a_topic_made_anew_has_no_copies(start_member, sends, client, topic, queue, order):
    sends(0, 2)
    _, seen = start_member(order=order, commit_interval=0.2)
    handled(seen, [0])
    delete_topic(client, topic)
    client.admin.create_topic(topic, 4)
    sends(1)
    sends(0)
    eventually(lambda: seen.numbers("a") == [0, 1, 0], within=90)
    sends(2)
    sends(2, 2)
    sends(3)
    eventually(lambda: seen.numbers("a") == [0, 1, 0, 2, 3], within=90)


def test_the_index_of_a_former_topic_makes_no_repeats(start_member, sends, client, topic, order):
    """A broker's index still knows what was deleted with its topic."""
    sends(0)
    delete_topic(client, topic)
    client.admin.create_topic(topic, 4)
    sends(1)
    sends(0, 2)
    _, seen = start_member(order=order)
    eventually(lambda: seen.numbers("a") == [1, 0], within=90)


def test_no_permit_is_spent(start_member, sends, order):
    """At one message in ten seconds: two calls, and three copies between them."""
    for attempt in range(1, 5):
        sends(0, attempt)
    sends(1)
    began = time.monotonic()
    _, seen = start_member(order=order, max_rate=0.2)
    handled(seen, [0, 1])
    assert time.monotonic() - began < 15


def test_a_producer_of_the_program_is_not_disturbed(start_member, producer, topic, order):
    _, seen = start_member(order=order)
    for number in range(20):
        producer.send(Message(topic, str(number).encode(), sharding_key="a"))
    handled(seen, list(range(20)))
