"""`orderly parked release --fingerprint | --max | --all`: which keys, and the rest stays."""

import json

import pytest

from orderly import Ack, Fail, Park, ParkLimits
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

CARDS, ACCOUNTS = [f"card-{n}" for n in range(6)], [f"account-{n}" for n in range(3)]
COUNT = 3
MANY = ParkLimits(ratio=1.0)  # one member alone gives up all of its keys here


class Handler:
    """Parks all keys until their cause is healed; `done` are the numbers it did, by key."""

    def __init__(self):
        self.healed = set()
        self.done = {key: [] for key in CARDS + ACCOUNTS}

    def __call__(self, messages, context):
        cause = context.key.partition("-")[0]
        if cause in self.healed:
            self.done[context.key] += [int(message.body) for message in messages]
            return Ack()
        return Fail("still bad") if self.done[context.key] else Park(f"no such {cause}")


@pytest.fixture
def parked(orderly, group):
    """How many keys are parked, by failure."""

    def parked():
        code, out, _ = orderly("parked", "list", group, "--group-by", "fingerprint", "-o", "json")
        groups = json.loads(out)["groups"] if code == 0 else []
        return {each["fingerprint"]: each["keys"] for each in groups}

    return parked


def test_by_failure_then_the_first_then_all(
    producer, topic, group, start_group, parks, orderly, parked
):
    handler = Handler()
    start_group(handler, order="key", parking=MANY, batch_size=1, commit_interval=0.2)
    send_numbers(producer, topic, [*CARDS, *ACCOUNTS], COUNT)
    everything = {"no such card": len(CARDS), "no such account": len(ACCOUNTS)}
    eventually(lambda: parked() == everything, within=60)

    code, _, err = orderly("parked", "release", group, "--all")
    assert (code, "there is no terminal to ask on: give --yes" in err) == (3, True)
    assert parked() == everything, "a preview changes nothing"

    handler.healed.add("card")
    code, out, err = orderly("parked", "release", group, "--fingerprint", "no such card", "--yes")
    assert (code, err.splitlines()[-1]) == (0, f"6 of 6 keys released, with {6 * COUNT} messages")
    queues = [line.split() for line in out.splitlines()[1:]]
    assert sum(int(words[3]) for words in queues) == len(CARDS), "each queue has its line"
    assert sum(int(words[4]) for words in queues) == len(CARDS) * COUNT
    assert parked() == {"no such account": len(ACCOUNTS)}
    assert all(handler.done[key] == [*range(COUNT)] for key in CARDS)

    code, out, _ = orderly("parked", "release", group, "--max", "1", "--yes", "-o", "json")
    (outcome,) = json.loads(out)["keys"]
    assert (code, outcome["settled"], outcome["key"] in ACCOUNTS) == (1, 0, True)
    assert parked() == {"no such account": len(ACCOUNTS)}, "it failed again, and stays parked"

    handler.healed.add("account")
    assert orderly("parked", "release", group, "--all", "--yes")[0] == 0
    assert parked() == {}
    assert all(done == [*range(COUNT)] for done in handler.done.values())
    code, _, err = orderly("parked", "release", group, "--all", "--yes")
    assert (code, "no parked key" in err) == (0, True)


def test_a_queue_without_an_owner_costs_the_others_nothing(
    producer, topic, group, start_group, parks, orderly, parked
):
    """Nobody is online: each queue is given up after --timeout, all at the same time."""
    handler = Handler()
    members = start_group(handler, order="key", parking=MANY, batch_size=1, commit_interval=0.2)
    send_numbers(producer, topic, CARDS, 1)
    eventually(lambda: parked() == {"no such card": len(CARDS)}, within=60)
    members.close()
    release = ("parked", "release", group, "--all", "--yes", "--timeout", "1s", "-o", "json")
    code, out, err = orderly(*release)
    document = json.loads(out)
    assert (code, document["keys"]) == (3, [])
    assert {each["key"] for each in document["unknown"]} == set(CARDS)
    assert "no answer within 1 s" in err
    handler.healed.add("card")
    start_group(handler, order="key", parking=MANY, batch_size=1, commit_interval=0.2)
    sent = {each["queue"] for each in document["unknown"]}
    left = len(CARDS) - len(sent)  # one command a queue was sent, and is run by whoever comes
    eventually(lambda: sum(parked().values()) == left, within=60)
