from orderly.model import MessageQueue
from orderly.protocol.parked_key import ParkedKey
from orderly.spark.jobs.poison.asking import Holdings
from orderly.spark.jobs.poison.run import piece_of

HOUR, DAY = 3600, 86400


def test_the_trend_is_by_the_hour_for_days_and_by_the_day_for_weeks():
    assert piece_of(0, 96 * HOUR) == HOUR
    assert piece_of(0, 96 * HOUR + 1) == DAY


def test_a_park_topic_with_nothing_but_notes_of_releases_has_no_times():
    assert piece_of(None, None) == HOUR


def test_a_key_that_is_parked_in_two_queues_is_one_key():
    parked = [
        (MessageQueue("orders", "a", queue), ParkedKey(key, 5, 0))
        for queue, key in ((0, "7"), (1, "7"), (1, 7))
    ]
    assert Holdings((), tuple(parked), ()).parked_keys == 2
