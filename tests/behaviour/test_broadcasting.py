"""Broadcasting: every member gets every message, in order, and finds its place again by itself."""

import pytest

from orderly import ConsumeResult
from orderly.errors import ConfigError, OffsetFileError
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually

KEYS = [f"k{i}" for i in range(8)]


@pytest.fixture
def start_listener(start_member, tmp_path):
    """Start a broadcasting member, by the name of its instance."""

    def start(instance, act=None, **settings):
        consumer, seen = start_member(
            act, model="broadcasting", instance=instance, offsets_folder=str(tmp_path), **settings
        )
        eventually(lambda: len(consumer.assignment) == 4, within=20)
        return consumer, seen

    return start


def have(seen, count):
    return lambda: len(seen.deliveries) >= count


def test_every_member_gets_every_message_in_order_and_nobody_locks(
    producer, topic, client, group, members, start_listener
):
    send_numbers(producer, topic, KEYS, 3)
    listeners = [start_listener(f"listener-{n}") for n in range(members)]
    send_numbers(producer, topic, KEYS, 3, first=3)
    queues = listeners[0][0].assignment
    assert client.brokers.lock_queues(group, "broker-a", queues) == frozenset(queues)
    for _, seen in listeners:
        eventually(have(seen, 48), within=20)
        assert seen.by_key() == {key: list(range(6)) for key in KEYS}
    assert all(client.brokers.query_offset(group, queue) is None for queue in queues)


def test_a_failure_repeats_for_its_own_member_only(producer, topic, start_listener):
    send_numbers(producer, topic, KEYS, 3)

    def act(messages, context):
        if int(messages[0].body) == 1 and context.attempt == 1:
            raise OSError("no")
        return ConsumeResult.SUCCESS

    _, well = start_listener("well")
    _, failing = start_listener("failing", act, suspend=0.05)
    eventually(have(failing, 32), within=20)
    eventually(have(well, 24), within=20)
    assert failing.by_key() == {key: [0, 1, 1, 2] for key in KEYS}
    assert well.by_key() == {key: [0, 1, 2] for key in KEYS}


def test_the_same_instance_goes_on_where_it_was_and_another_one_begins_anew(
    producer, topic, client, start_listener
):
    send_numbers(producer, topic, KEYS, 3)
    first, seen = start_listener("one", commit_interval=60)
    eventually(have(seen, 24), within=20)
    first.close()
    send_numbers(producer, topic, KEYS, 1, first=3)
    await_visible(client)
    _, again = start_listener("one")
    _, other = start_listener("two", consume_from="last")
    send_numbers(producer, topic, KEYS, 1, first=4)
    eventually(have(again, 16), within=20)
    eventually(have(other, 8), within=20)
    assert again.by_key() == {key: [3, 4] for key in KEYS}
    assert other.by_key() == {key: [4] for key in KEYS}


def test_an_instance_runs_once_only(producer, topic, start_listener):
    first, seen = start_listener("one")
    with pytest.raises(ConfigError, match="give each consumer an instance of its own"):
        start_listener("one")
    send_numbers(producer, topic, KEYS, 3)
    eventually(have(seen, 24), within=20)
    first.close()
    start_listener("one")


def test_a_damaged_file_is_replaced_by_its_backup_and_kept_or_else_refused(
    producer, topic, tmp_path, start_listener
):
    send_numbers(producer, topic, KEYS, 3)
    first, seen = start_listener("one")
    eventually(have(seen, 24), within=20)
    first.close()
    (path,) = tmp_path.glob("*.json")
    path.write_text("{")
    second, again = start_listener("one")
    send_numbers(producer, topic, KEYS, 1, first=3)
    eventually(lambda: all(3 in again.numbers(key) for key in KEYS), within=20)
    assert [p.read_text() for p in tmp_path.glob("*.corrupt-*")] == ["{"]
    second.close()
    path.write_text("{")
    path.with_name(f"{path.name}.bak").unlink()
    with pytest.raises(OffsetFileError, match="damaged"):
        start_listener("one")
    assert path.read_text() == "{"
