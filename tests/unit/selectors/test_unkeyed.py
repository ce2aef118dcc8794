from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.errors import ConfigError
from orderly.model import Message, MessageQueue
from orderly.selectors import RandomQueue, RoundRobin, SingleQueue, single_queue

MESSAGE = Message("T", b"x")
QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(4))


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
