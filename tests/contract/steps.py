"""What the cases of the contract are made of: the register, and requests that many send."""

from orderly.model import MessageQueue
from orderly.protocol.groups import GroupConfig, encode_group_config
from orderly.protocol.locks import lock_request
from orderly.protocol.offsets import QueryConsumerOffset, ResetOffset, UpdateConsumerOffset
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendMessage
from orderly.protocol.topics import CreateTopic
from tests.support.waiting import eventually

CASES = {}
BORN = 1_700_000_000_123  # ms


def case(function):
    """Register a case: a function that asks a Wire."""
    CASES[function.__name__] = function
    return function


def topic(w, queues=2, *, read=None, perm=6, name=None, **fields):
    read = queues if read is None else read
    header = CreateTopic(
        topic=name or w.topic, read_queue_nums=read, write_queue_nums=queues, perm=perm, **fields
    )
    w.ask(header)


def message(w, *, name=None, properties="", queue_id=0, **fields):
    return SendMessage(
        producer_group="p",
        topic=name or w.topic,
        queue_id=queue_id,
        born_timestamp=BORN,
        properties=properties,
        **fields,
    )


def props(**values):
    return encode_properties(values)


def sent(w, *tags):
    """Messages in queue 0, one a tag (None: without)."""
    topic(w)
    for number, tag in enumerate(tags):
        text = props(UNIQ_KEY=f"{number:032X}", **({"TAGS": tag} if tag else {}))
        w.ask(message(w, properties=text), f"body {number}".encode())
    w.visible(w.topic, 0, len(tags))


def commit(w, offset, **fields):
    wanted = {"consumer_group": w.group, "topic": w.topic, "queue_id": 0} | fields
    w.ask(UpdateConsumerOffset(commit_offset=offset, **wanted))


def stored(w, queue_id=0, zero=None):
    w.ask(
        QueryConsumerOffset(
            consumer_group=w.group, topic=w.topic, queue_id=queue_id, set_zero_if_not_found=zero
        )
    )


def reset(w, **fields):
    w.ask(ResetOffset(**{"topic": w.topic, "group": w.group, "timestamp": -1} | fields))


def locking(w, code, client_id, *numbers, name=None):
    queues = [MessageQueue(name or w.topic, "broker-a", number) for number in numbers]
    w.raw(code, body=lock_request(w.group, client_id, queues))


def retried(w, count, limit, **fields):
    name = f"%RETRY%{w.group}"
    properties = props(RETRY_TOPIC=w.topic, UNIQ_KEY="F" * 32, **fields)
    header = message(
        w, name=name, properties=properties, reconsume_times=count, max_reconsume_times=limit
    )
    w.ask(header, b"failed")


def told(w, on, count):
    """Note how often a connection was told of changes, once it was at least so often."""
    eventually(lambda: len(w.pushed[on]) >= count)
    w.say((on, list(w.pushed[on])))


def settings(w, **fields):
    return encode_group_config(GroupConfig(name=w.group, **fields))
