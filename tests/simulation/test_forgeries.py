"""Records that somebody forges: what that comes to, with a secret of the members and without."""

from dataclasses import replace

import pytest

from tests.simulation.drawing import draw
from tests.simulation.scenario import FORGERIES
from tests.simulation.world import Violation, run

FORGED = [seed for seed in range(1000) if draw(seed).forged]
LOSES = 203  # a history that loses messages where members have no secret


@pytest.mark.parametrize("seed", FORGED[:4])
def test_with_a_secret_nothing_is_lost_and_no_order_breaks(seed):
    scenario = draw(seed)
    assert scenario.secrets
    assert "forged records" in run(scenario).paths


def test_without_a_secret_messages_are_skipped():
    with pytest.raises(Violation) as caught:
        run(replace(draw(LOSES), secrets=""))
    assert caught.value.kind in ("lost", "never delivered")


def test_each_forgery_is_drawn():
    codes = {f.code for seed in FORGED for f in draw(seed).faults if f.kind == "forge"}
    assert codes == set(range(len(FORGERIES)))
