"""`orderly parked` and a running member: what it has parked is seen, and released in order."""

import json

import pytest

from orderly import Ack, ConsumerConfig, Message, OrderlyConsumer, Park, Suspend
from tests.support.consuming import Recorder, send_numbers
from tests.support.waiting import eventually

KEYS = ["good", "bad"]


class Handler(Recorder):
    """Parks the key "bad" until it is mended; `dry_run` tells what it may be asked."""

    dry_run = True

    def __init__(self):
        super().__init__(self._answer)
        self.mended = self.blocked = False
        self.applied = []

    def _answer(self, messages, context):
        (message,) = messages
        if message.sharding_key == "bad" and not self.mended:
            return Suspend(25) if self.blocked else Park("not mended")
        if not context.dry_run:
            self.applied.append((message.sharding_key, message.queue_offset))
        return Ack()


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
def member(orderly_namesrv, group, topic, handler):
    config = ConsumerConfig(consume_from="first", order="key", batch_size=1)
    consumer = OrderlyConsumer(group, handler, namesrv=orderly_namesrv, config=config)
    with consumer.subscribe(topic):
        yield consumer


def command(orderly, *args):
    code, out, err = orderly("parked", *args, "-o", "json")
    return code, json.loads(out)["keys"] if out else err


def counts(orderly, group):
    """Parked messages by key; a text where that is not known (yet)."""
    _, keys = command(orderly, "list", group)
    return keys if isinstance(keys, str) else {key["key"]: key["messages"] for key in keys}


@pytest.fixture
def parked(orderly, producer, group, topic, member, handler):
    """Five messages of "bad" wait, the five of "good" are done."""
    send_numbers(producer, topic, KEYS, 5)
    eventually(lambda: handler.numbers("good") == list(range(5)))
    eventually(lambda: counts(orderly, group) == {"bad": 5})


@pytest.mark.usefixtures("parked")
def test_release_runs_them_in_order_and_the_key_goes_on_live(
    orderly, producer, group, topic, handler
):
    assert command(orderly, "release", group, "bad")[0] == 1, "it fails as before"
    assert counts(orderly, group) == {"bad": 5}
    handler.mended = True
    code, (done,) = command(orderly, "release", group, "bad")
    assert (code, done["settled"], done["failed_at"]) == (0, 5, None)
    assert counts(orderly, group) == {}
    producer.send(Message(topic, b"5", "bad"))
    eventually(lambda: len([k for k, _ in handler.applied if k == "bad"]) == 6)
    offsets = [offset for key, offset in handler.applied if key == "bad"]
    assert offsets == sorted(set(offsets)), "applied offsets of a key strictly rise"


@pytest.mark.usefixtures("parked")
def test_a_dry_run_tells_which_are_cured_and_changes_nothing(orderly, group, handler):
    code, (tried,) = command(orderly, "release", group, "bad", "--dry-run")
    assert code == 1
    handler.mended = True
    code, (tried,) = command(orderly, "release", group, "bad", "--dry-run")
    assert code == 0
    assert [each["outcome"] for each in tried["outcomes"]] == ["ok"] * 5
    assert counts(orderly, group) == {"bad": 5}
    assert "bad" not in [key for key, _ in handler.applied]


@pytest.mark.usefixtures("parked")
def test_drop_settles_them_and_the_next_is_run(orderly, producer, group, topic, handler):
    handler.mended = True
    code, (done,) = command(orderly, "drop", group, "bad", "--yes")
    assert (code, done["settled"]) == (0, 5)
    assert counts(orderly, group) == {}
    producer.send(Message(topic, b"5", "bad"))
    eventually(lambda: [key for key, _ in handler.applied].count("bad") == 1)


def test_a_key_that_blocks_is_parked_at_an_operators_word(
    orderly, producer, group, topic, member, handler
):
    handler.blocked = True
    send_numbers(producer, topic, KEYS, 5)
    eventually(lambda: handler.numbers("good") == list(range(5)))
    would = lambda: command(orderly, "add", group, "bad", "--dry-run")  # noqa: E731
    eventually(lambda: [key["parked"] for key in would()[1]] == [5])
    assert counts(orderly, group) == {}
    code, out, err = orderly("parked", "add", group, "bad", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["keys"][0]["reason"] is None
    eventually(lambda: counts(orderly, group) == {"bad": 5})
    assert command(orderly, "add", group, "bad")[0] == 3, "it is parked already"
    assert orderly("parked", "add", group, "good")[0] == 3, "nothing of it waits"
    handler.blocked, handler.mended = False, True
    release = err.split("fixed: orderly ")[1].split()
    code, out, err = orderly(*release)
    assert code == 0, err
    offsets = [offset for key, offset in handler.applied if key == "bad"]
    assert offsets == sorted(offsets)
    assert len(offsets) == 5
