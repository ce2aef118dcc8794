"""A bounded number of hostile cases in every run, and that the fuzzer finds what is planted."""

import random

import pytest

from orderly.errors import ProtocolError
from tests.fuzz import __main__ as command
from tests.fuzz import judging
from tests.fuzz.campaign import draw_case, run_chunk
from tests.fuzz.judging import judge
from tests.fuzz.targets import TARGETS, Target

CASES = 10_000
SEED = 20_261_121


def test_every_decoder_returns_a_value_or_raises_protocol_error():
    counted, violations = run_chunk((SEED, 0, CASES))
    assert violations == []
    assert counted.total() == CASES
    assert counted.keys() == TARGETS.keys(), "each decoder has had its share"


@pytest.mark.parametrize("name", TARGETS)
def test_some_of_what_is_drawn_is_read_to_its_end(name):
    """Noise is refused at its first byte and tests little."""
    rng, target = random.Random(SEED), TARGETS[name]
    assert any(_is_read(target, target.draw(rng)) for _ in range(200))


def _is_read(target, data):
    try:
        target.decode(data)
    except ProtocolError:
        return False
    return True


def test_a_case_follows_from_the_seed_and_its_number():
    assert [draw_case(7, n) for n in range(50)] == [draw_case(7, n) for n in range(50)]
    assert draw_case(7, 1) != draw_case(8, 1)


def spin(data):
    while True:
        pass


def recurse(data):
    return recurse(data)


def take_memory(data):
    return bytearray(8 << 20)


PLANTED = {
    "IndexError": lambda data: data[1 << 40],
    "RecursionError": recurse,
    "more than": spin,
    "bytes of memory": take_memory,
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_fault_is_found(what, monkeypatch):
    monkeypatch.setattr(judging, "CPU_SECONDS", 0.1)
    violation = judge("planted", Target(PLANTED[what], None), b"12", measured=True)
    assert what in violation.what
    assert violation.data == b"12"


def test_a_refusal_is_no_violation():
    def refuse(data):
        raise ProtocolError("no")

    assert judge("planted", Target(refuse, None), b"12", measured=True) is None


def test_a_violation_is_shown_with_the_command_that_replays_it(capsys, monkeypatch):
    monkeypatch.setitem(TARGETS, "batch", Target(PLANTED["IndexError"], None))
    command._show(judge("batch", TARGETS["batch"], b"\x00\xff"))
    again = capsys.readouterr().out.splitlines()[-1].strip()
    assert again == "again: python -m tests.fuzz --replay 'batch' --hex 00ff"
    assert command.main(["--replay", "batch", "--hex", "00ff"]) == 1
    assert "IndexError" in capsys.readouterr().out
