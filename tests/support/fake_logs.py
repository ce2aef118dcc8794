"""What happens to logs at a broker, done to a FakeBroker: messages come, expire, are cut off."""

from orderly.testing.fake.store import NewMessage


def fill(fake, topic, counts, at=1_763_712_000.0, broker=""):
    """Append messages to queues: `counts` by queue id; one is stored each second from `at` on."""
    with fake._running().changing() as cluster:
        store = cluster.brokers[broker or fake.broker_name].store
        for queue_id, count in counts.items():
            for number in range(count):
                message = NewMessage(
                    topic=topic,
                    queue_id=queue_id,
                    body=b"%d" % number,
                    properties={"TAGS": "AB"[number % 2], "__SHARDINGKEY": f"k{number % 5}"},
                    born_time=at,
                    born_host="127.0.0.1:1",
                )
                store.put(message, at + number)


def expire(fake, topic, queue_id, before):
    with fake._running().changing() as cluster:
        cluster.brokers[fake.broker_name].store.log(topic, queue_id).drop_before(before)


def make_anew(fake, topic, queues):
    delete(fake, topic)
    fake.create_topic(topic, queues)


def delete(fake, topic):
    with fake._running().changing() as cluster:
        for state in cluster.brokers.values():
            state.store.forget(topic)
            state.topics.remove(topic)
        cluster.name_server.forget(topic)
