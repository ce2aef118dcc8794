from orderly.model import MessageQueue
from orderly.monitoring.placement.sightings import Sighting, Sightings

ONE, TWO = MessageQueue("T", "a", 1), MessageQueue("T", "a", 2)


def seen(*messages):
    found = Sightings()
    for message in messages:
        found.add(*message)
    return found


def test_a_key_in_a_queue_is_one_sighting_with_its_first_and_last_time():
    found = seen(("k", ONE, 5.0), ("k", ONE, 3.0), ("k", ONE, 4.0), (None, ONE, 1.0))
    assert list(found) == [Sighting("k", ONE, 3, 3.0, 5.0)]
    assert (found.messages, found.keyless, found.keys) == (4, 1, 1)
    assert found.split() == []


def test_keys_in_several_queues_come_most_frequent_first_and_each_as_it_came_by():
    found = seen(
        ("rare", ONE, 1.0), ("rare", TWO, 2.0), ("whole", ONE, 1.0),
        ("often", TWO, 9.0), ("often", ONE, 8.0), ("often", ONE, 8.5),
    )  # fmt: skip
    assert [[(it.key, it.queue, it.messages) for it in key] for key in found.split()] == [
        [("often", ONE, 2), ("often", TWO, 1)],
        [("rare", ONE, 1), ("rare", TWO, 1)],
    ]
