"""The same strings through a real JVM: what it hashes and where it places them is the measure."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors import hash_mod, java_string_hash
from tests.support.optional import require

pytestmark = pytest.mark.needs("jdk")

SOURCE = Path(__file__).with_name("JavaPlaces.java")
MOST_QUEUES = 64
SEED = 20261121

FIXED = [
    "",
    "a",
    "\0",
    "1001",
    "order-1001",
    "订单-42",
    "\U0001f600",
    "\U0001f600\U0001f468‍\U0001f469‍\U0001f467",
    "\ud83d",  # a lone high surrogate
    "\ude00",  # a lone low one
    "\ude00\ud83d",  # the pair the wrong way round
    "￿",
    "\U0010ffff",
    "polygenelubricants",  # hash -2^31, whose absolute value overflows
    "GydZG_",
    "DESIGNING WORKHOUSES",
    "x" * 5000,
]


def generated_keys() -> list[str]:
    pick = random.Random(SEED)
    ranges = [(0x20, 0x7E), (0x80, 0x2FFF), (0x4E00, 0x9FFF), (0xD800, 0xDFFF), (0x1F300, 0x10FFFF)]
    return [
        "".join(chr(pick.randint(*pick.choice(ranges))) for _ in range(pick.randint(1, 24)))
        for _ in range(4000)
    ]


def units(key: str) -> str:
    data = key.encode("utf-16-be", "surrogatepass")
    return ",".join(data[i : i + 2].hex() for i in range(0, len(data), 2))


@pytest.fixture(scope="module")
def run_java(tmp_path_factory):
    javac, java = require("jdk")
    classes = tmp_path_factory.mktemp("java")
    subprocess.run([javac, "-d", classes, SOURCE], check=True, timeout=120)

    def run(keys: list[str]) -> list[list[int]]:
        lines = "".join(f"{units(key)}\n" for key in keys)
        done = subprocess.run(
            [java, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", classes, "JavaPlaces"],
            input=lines,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]

    return run


def test_java_hashes_and_places_every_string_alike(run_java):
    keys = FIXED + generated_keys()
    answers = run_java(keys)
    assert len(answers) == len(keys)
    queues = [MessageQueue("T", "broker-a", number) for number in range(MOST_QUEUES)]
    message = Message("T", b"x")
    for key, (hash_code, *places) in zip(keys, answers, strict=True):
        assert java_string_hash(key) == hash_code, ascii(key)
        ours = [hash_mod(queues[:n], message, key).queue_id for n in range(1, MOST_QUEUES + 1)]
        assert ours == places, ascii(key)
