"""The same members and queues through the Java client's own strategies: its answer is the measure.

The checked-in answers (tests/unit/ordering/java_allocations.txt), which the tests without a JVM
use, are compared as well.
"""

import random
from pathlib import Path

import pytest

from tests.support.java import answered, compile_java, run_java, shares

pytestmark = pytest.mark.needs("jdk")

SOURCE = Path(__file__).with_name("JavaAllocation.java")
CHECKED_IN = Path(__file__).parents[1] / "unit" / "ordering" / "java_allocations.txt"
SEED = 20261121
CASES_EACH = 150

# Rooms of the brokers and the members overlap in part; the last ones try Java's split.
BROKERS = [
    "broker-a", "broker-b", "经纪-1",
    "east@broker-a", "east@broker-b", "west@broker-a", "south@broker-a",
    "east@broker-a@", "east@a@b", "east@@c", "east@",
]  # fmt: skip
PLACES = ["10.0.0.1", "10.0.0.2", "192.168.7.31", "east", "west", "north", "会员"]
ROOMS = ["east", "west", "south", "nowhere"]
INNER = ["averagely", "circle", "consistent-hash", "consistent-hash 3", "room east west"]


def settings_of(name, pick):
    match name:
        case "consistent-hash":
            return pick.choice(["", f" {pick.randint(1, 40)}"])
        case "config":
            texts = (f" {pick.choice(BROKERS)}:{pick.randrange(9)}" for _ in range(9))
            return "".join(list(texts)[: pick.randint(1, 9)])
        case "room":
            return "".join(f" {room}" for room in pick.sample(ROOMS, pick.randint(1, 3)))
        case "nearby":
            return f" {pick.choice(INNER)}"
        case _:
            return ""


def generated_case(name, pick):
    brokers = pick.sample(BROKERS, pick.randint(1, 5))
    members = {
        f"{pick.choice(PLACES)}@{pick.randint(1, 99999)}#{pick.randint(0, 2**40)}"
        for _ in range(pick.choice([1, 2, 3, 5, 8, 17, 40]))
    }
    return " | ".join(
        [
            name + settings_of(name, pick),
            pick.choice(["orders", "%RETRY%group", "a-topic_7"]),
            " ".join(f"{broker}:{pick.randint(1, 16)}" for broker in brokers),
            " ".join(sorted(members)),
        ]
    )


@pytest.fixture(scope="module")
def java_shares(tmp_path_factory):
    classes = tmp_path_factory.mktemp("java")
    compile_java(SOURCE, classes)

    def answer(cases):
        given = "".join(f"{case}\n" for case in cases)
        return run_java(classes, "JavaAllocation", given).splitlines()

    return answer


@pytest.mark.parametrize(
    "name", ["averagely", "circle", "config", "consistent-hash", "room", "nearby"]
)
def test_members_in_java_and_python_share_a_group_alike(java_shares, name):
    pick = random.Random(f"{SEED} {name}")
    cases = [generated_case(name, pick) for _ in range(CASES_EACH)]
    answers = java_shares(cases)
    assert len(answers) == len(cases)
    assert any(answer.strip("; -") for answer in answers)
    for case, answer in zip(cases, answers, strict=True):
        assert shares(case) == answer, case


def test_the_checked_in_answers_are_those_of_java(java_shares):
    checked_in = answered(CHECKED_IN)
    assert java_shares(checked_in) == list(checked_in.values())
