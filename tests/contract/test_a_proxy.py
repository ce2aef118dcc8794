"""The fake's proxy answers as the real one does, in cluster mode at its remoting port."""

import time

import pytest

from tests.contract.proxy_cases import CASES
from tests.contract.test_same_answers import heard


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_the_same(name, real, proxy_beside, fake, fake_proxy):
    run = f"{time.time_ns():x}"
    ours = heard(CASES[name], fake, run, fake_proxy)
    theirs = heard(CASES[name], real, run, proxy_beside)
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert different == []
