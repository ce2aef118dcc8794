"""A replay that broke off is gone on with by the same settings, and by no others."""

import pytest

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.jobs.replay.plan import Plan, check_same, from_text, to_text

QUEUE = MessageQueue("orders", "broker-a", 0)
PLAN = Plan({QUEUE: 3}, "orders", {"keys": ["a"], "until": None}, {QUEUE: 9})


def test_a_plan_reads_as_it_was_written():
    assert from_text(to_text(PLAN)) == PLAN


def test_other_settings_are_refused_and_named():
    check_same(PLAN, {"keys": ("a",), "until": None})
    with pytest.raises(ConfigError, match="another until"):
        check_same(PLAN, {"keys": ("a",), "until": 5.0})


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"schema": "other"}', to_text(PLAN)[:-9]])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(ConfigError, match=r"replay\.json"):
        from_text(text)
