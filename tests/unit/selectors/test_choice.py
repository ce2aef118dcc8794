from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors import (
    RandomQueue,
    RoundRobin,
    SingleQueue,
    choose,
    cpp_hash_mod,
    go_hash_mod,
    hash_mod,
    lane_of,
    numeric_mod,
    proxy_hash,
    single_queue,
)

KEYED = Message("T", b"x", sharding_key="order-1")
KEYLESS = Message("T", b"x")
QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(4))


def users_selector(queues, message, arg):
    return queues[-1]


def test_the_argument_defaults_to_the_sharding_key():
    assert choose(hash_mod, QUEUES, KEYED, None) is hash_mod(QUEUES, KEYED, "order-1")


def test_an_argument_wins_over_the_sharding_key():
    assert choose(hash_mod, QUEUES, KEYED, "a") is QUEUES[1]


def test_a_users_selector_gets_what_java_would_give_it():
    seen = []

    def selector(queues, message, arg):
        seen.append((queues, message, arg))
        return queues[2]

    assert choose(selector, QUEUES, KEYED, 42) is QUEUES[2]
    assert seen == [(QUEUES, KEYED, 42)]


def test_an_equal_queue_that_is_another_object_is_accepted():
    copy = MessageQueue("T", "broker-a", 1)
    assert choose(lambda *_: copy, QUEUES, KEYED, None) == QUEUES[1]


@pytest.mark.parametrize("answer", [MessageQueue("T", "broker-a", 4), None, 0, "broker-a"])
def test_a_queue_outside_the_list_is_refused(answer):
    with pytest.raises(ConfigError, match="not one of the 4 queues"):
        choose(lambda *_: answer, QUEUES, KEYED, None)


def test_what_a_users_selector_raises_comes_through():
    def selector(queues, message, arg):
        raise KeyError(arg)

    with pytest.raises(KeyError):
        choose(selector, QUEUES, KEYED, None)


@pytest.mark.parametrize(
    ("selector", "message", "arg", "lane"),
    [
        (hash_mod, KEYED, None, "order-1"),
        (hash_mod, KEYED, "other", "order-1"),
        (hash_mod, KEYLESS, "order-2", "order-2"),
        (hash_mod, KEYLESS, None, None),
        (proxy_hash, KEYLESS, None, None),
        (cpp_hash_mod, KEYED, None, "order-1"),
        (go_hash_mod, KEYLESS, None, None),
        (numeric_mod, Message("T", b"x", sharding_key=7), None, "7"),
        (numeric_mod, KEYLESS, 8, "8"),
        (single_queue, KEYED, None, ""),
        (SingleQueue(3), KEYLESS, None, ""),
        (users_selector, KEYED, None, "order-1"),
        (users_selector, KEYLESS, None, ""),
        (users_selector, KEYLESS, ("tenant", 4), ""),
        (RoundRobin(), KEYLESS, None, None),
        (RandomQueue(lambda _: 0), KEYLESS, None, None),
    ],
)
def test_messages_that_must_not_overtake_each_other_share_a_lane(selector, message, arg, lane):
    assert lane_of(selector, message, arg) == lane


@pytest.mark.parametrize("selector", [RoundRobin(), RandomQueue(lambda _: 0)])
def test_a_key_with_a_selector_that_keeps_no_order_is_refused(selector):
    with pytest.raises(ConfigError, match="keeps no order"):
        lane_of(selector, KEYED, None)


MESSAGE = Message("T", b"x")


def test_single_queue_sends_everything_to_the_first_queue():
    assert {single_queue(QUEUES, MESSAGE, key) for key in ("a", 7, None)} == {QUEUES[0]}


def test_the_index_of_the_single_queue_can_be_chosen():
    assert SingleQueue(2)(QUEUES, MESSAGE, None) is QUEUES[2]


def test_an_index_beyond_the_list_is_refused():
    with pytest.raises(ConfigError, match="4 queues"):
        SingleQueue(4)(QUEUES, MESSAGE, None)
    with pytest.raises(ConfigError, match="0 or more"):
        SingleQueue(-1)


def test_round_robin_visits_the_queues_in_turn():
    selector = RoundRobin()
    assert [selector(QUEUES, MESSAGE, None).queue_id for _ in range(6)] == [0, 1, 2, 3, 0, 1]


def test_round_robin_stays_even_with_many_threads():
    selector = RoundRobin()
    with ThreadPoolExecutor(8) as pool:
        chosen = Counter(pool.map(lambda _: selector(QUEUES, MESSAGE, None), range(4000)))
    assert set(chosen.values()) == {1000}


def test_random_queue_asks_for_a_number_below_the_count():
    asked: list[int] = []

    def pick(count: int) -> int:
        asked.append(count)
        return 3

    assert RandomQueue(pick)(QUEUES, MESSAGE, None) is QUEUES[3]
    assert asked == [4]
