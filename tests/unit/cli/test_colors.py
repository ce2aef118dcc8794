"""When to colour: the option wins; else a terminal that can, and NO_COLOR."""

import pytest

from orderly.cli.colors import wanted


@pytest.mark.parametrize(
    ("choice", "env", "terminal", "colored"),
    [
        ("auto", {}, True, True),
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colours(choice, env, terminal, colored):
    assert wanted(choice, env, terminal=terminal) is colored
