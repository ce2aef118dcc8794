"""Only the wanted tags arrive, also where the broker's hash lets others through."""

from orderly import Message
from orderly.selectors import java_string_hash
from tests.support.waiting import await_visible, eventually


def send_tagged(producer, topic, tags):
    for number, tag in enumerate(tags):
        message = Message(topic, str(number).encode(), sharding_key="k", tags=tag)
        producer.send(message)


def test_several_tags(producer, topic, start_member):
    send_tagged(producer, topic, ["a", "b", "c", None, "a"])
    _, seen = start_member(tags="a || c")
    eventually(lambda: 4 in seen.numbers("k"), within=20)
    assert seen.numbers("k") == [0, 2, 4]


def test_a_tag_with_the_same_hash_does_not_get_through(producer, topic, start_member):
    assert java_string_hash("Aa") == java_string_hash("BB")
    send_tagged(producer, topic, ["Aa", "BB", "BB", "Aa"])
    _, seen = start_member(tags="Aa")
    eventually(lambda: 3 in seen.numbers("k"), within=20)
    assert seen.numbers("k") == [0, 3]


def test_what_was_filtered_counts_as_done(producer, topic, client, group, start_member):
    send_tagged(producer, topic, ["a", "b", "b", "b"])
    await_visible(client)
    member, seen = start_member(tags="a")
    eventually(lambda: seen.numbers("k") == [0], within=20)
    (queue,) = {q for q in member.assignment if q.queue_id == seen.deliveries[0].queue_id}
    member.close()
    assert client.brokers.query_offset(group, queue) == 4


def test_new_tags_while_running_replace_the_old_ones(producer, topic, start_member):
    send_tagged(producer, topic, ["a", "b"])
    member, seen = start_member(tags="a")
    eventually(lambda: seen.numbers("k") == [0], within=20)
    member.unsubscribe(topic)
    member.subscribe(topic, "b || c")
    for number, tag in [(10, "a"), (11, "b"), (12, "c")]:
        message = Message(topic, str(number).encode(), sharding_key="k", tags=tag)
        producer.send(message)
    eventually(lambda: 12 in seen.numbers("k"), within=20)
    assert seen.numbers("k")[-2:] == [11, 12]
