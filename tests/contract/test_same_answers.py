"""The fake broker answers as the real one does: the same requests to both, the answers compared.

Each case (in the modules imported here) runs on both; every `ask` in it is one request in one
situation. The real broker is right: where this fails, the fake is to be changed.
"""

import time

import pytest

from tests.contract import (
    backlog_cases,
    member_cases,
    offset_cases,
    pull_cases,
    send_cases,
    topic_cases,
)
from tests.contract.steps import CASES
from tests.contract.wire import Wire

MODULES = (topic_cases, send_cases, pull_cases, offset_cases, member_cases, backlog_cases)


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_the_same(name, real, fake):
    run = f"{time.time_ns():x}"
    ours, theirs = heard(CASES[name], fake, run), heard(CASES[name], real, run)
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert different == []


def heard(function, namesrv, run, proxy=""):
    """All that one cluster answered in a case."""
    wire = Wire(namesrv, run, proxy)
    try:
        function(wire)
    finally:
        wire.close()
    return wire.heard
