"""Which names a selection takes."""

import pytest

from orderly.errors import ConfigError
from orderly.monitoring.collecting.selection import EVERYTHING, Selection


def test_everything_leaves_out_only_the_systems_own():
    assert EVERYTHING.group("pay")
    assert EVERYTHING.topic("orders")
    assert not EVERYTHING.group("TOOLS_CONSUMER")
    assert not EVERYTHING.topic("TBW102")
    assert Selection(system=True).group("TOOLS_CONSUMER")


def test_one_of_several_globs_is_enough_and_each_fits_the_whole_name():
    selection = Selection(groups=("pay*", "ship"))
    assert [selection.group(name) for name in ("payment", "ship", "shipping", "repay")] == [
        True,
        True,
        False,
        False,
    ]


def test_regular_expressions_fit_the_whole_name():
    selection = Selection(topics=("a|b.*",), regex=True)
    assert [selection.topic(name) for name in ("a", "bc", "ab", "ca")] == [True, True, False, False]


def test_only_names_without_a_wildcard_are_named():
    assert Selection(groups=("pay", "s*", "[ab]", "x?")).named_groups == ("pay",)
    assert Selection(topics=("orders",)).named_topics == ("orders",)
    assert Selection(groups=("pay",), regex=True).named_groups == ()


def test_only_named_is_said_of_groups_without_any_pattern():
    assert Selection(groups=("pay", "ship")).only_named
    assert not Selection(groups=("pay", "s*")).only_named
    assert not Selection(groups=("pay",), regex=True).only_named
    assert not EVERYTHING.only_named


def test_a_malformed_expression_is_refused_with_its_text():
    with pytest.raises(ConfigError, match=r"'\(' is not a regular expression"):
        Selection(groups=("(",), regex=True)
