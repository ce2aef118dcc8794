"""Records that somebody forges: what that comes to, with a secret of the members and without."""

from dataclasses import replace

import pytest

from tests.simulation.drawing import draw
from tests.simulation.scenario import FORGERIES
from tests.simulation.world import Violation, run

FORGED = [seed for seed in range(1000) if draw(seed).forged]


@pytest.mark.parametrize("seed", FORGED[:4])
def test_with_a_secret_nothing_is_lost_and_no_order_breaks(seed):
    scenario = draw(seed)
    assert scenario.secrets
    assert "forged records" in run(scenario).paths


def loses(seed):
    """Whether the history loses messages where members have no secret."""
    try:
        run(replace(draw(seed), secrets=""))
    except Violation as violation:
        return violation.kind in ("lost", "never delivered")
    return False


def test_without_a_secret_messages_are_skipped():
    assert any(map(loses, FORGED))


def test_each_forgery_is_drawn():
    codes = {f.code for seed in FORGED for f in draw(seed).faults if f.kind == "forge"}
    assert codes == set(range(len(FORGERIES)))
