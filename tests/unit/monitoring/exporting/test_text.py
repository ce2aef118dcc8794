"""The text formats: whatever a label holds, a parser finds one series with one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from orderly.monitoring.exporting.metrics import COUNTER, GAUGE, INFO, Labelled, Metric
from orderly.monitoring.exporting.text import LONGEST_LABEL, Blocks, label

PARSERS = [
    (False, lambda text: list(prometheus_families(text))),
    (True, lambda text: list(openmetrics_families(text + "# EOF\n"))),
]
formats = pytest.mark.parametrize(("openmetrics", "parse"), PARSERS, ids=["text", "openmetrics"])
LEVEL = (
    Metric("size", GAUGE, "How big.", lambda number: number),
    Labelled("size_state", GAUGE, "Which.", "state", lambda number: (("a", 1), ("b", number))),
    Metric("seen_total", COUNTER, "How often.", lambda number: number),
    Labelled("size_owner_info", INFO, "Whose.", "client", lambda _: (("c", 1),)),
)
ANY_TEXT = st.text(st.characters(), max_size=400)  # lone surrogates and controls, too


def samples(families):
    return [(s.name, s.labels, s.value) for family in families for s in family.samples]


@formats
@given(names=st.lists(ANY_TEXT, min_size=1, max_size=4, unique=True))
def test_any_names_make_series_of_their_own(openmetrics, parse, names):
    blocks = Blocks(openmetrics=openmetrics)
    blocks.add(LEVEL[:1], [label("group", name) for name in names], range(len(names)))
    text = blocks.text()
    text.encode()  # no lone surrogates
    assert len(text.splitlines()) == 2 + len(names)
    found = samples(parse(text))
    assert [value for _, _, value in found] == list(range(len(names)))
    shown = [labels["group"] for _, labels, _ in found]
    assert all(value.isprintable() and len(value) <= LONGEST_LABEL for value in shown)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=LONGEST_LABEL))
def test_what_is_printable_is_read_back_as_it_was(name):
    blocks = Blocks()
    blocks.add(LEVEL[:1], [label("group", name)], [1])
    shown = samples(prometheus_families(blocks.text()))[0][1]["group"]
    assert shown == name or not name.isprintable()


def test_long_names_that_begin_alike_stay_apart():
    one, other = (label("group", "g" * 300 + end) for end in "ab")
    assert one != other
    assert len(one) == len('group=""') + LONGEST_LABEL


@formats
@pytest.mark.parametrize("value", [0, 7, -3, 2**63, 0.25, float("inf"), 1_795_284_960.125])
def test_numbers_are_read_back(openmetrics, parse, value):
    blocks = Blocks(openmetrics=openmetrics)
    assert blocks.add(LEVEL[:1], [""], [value]) == blocks.series == 1
    assert samples(parse(blocks.text())) == [("size", {}, value)]


@formats
def test_a_level_is_one_block_a_metric_with_its_kind(openmetrics, parse):
    blocks = Blocks(openmetrics=openmetrics)
    blocks.add(LEVEL, ['group="x"', 'group="y"'], [3, 4])
    families = parse(blocks.text())
    kinds = {family.name: (family.type, family.documentation) for family in families}
    assert kinds == {
        "size": ("gauge", "How big."),
        "size_state": ("gauge", "Which."),
        "seen": ("counter", "How often."),
        **(
            {"size_owner": ("info", "Whose.")}
            if openmetrics
            else {"size_owner_info": ("gauge", "Whose.")}
        ),
    }
    assert ("size_state", {"group": "y", "state": "b"}, 4) in samples(families)
    assert ("seen_total", {"group": "x"}, 3) in samples(families)
    assert blocks.series == len(samples(families)) == 10


@formats
def test_what_is_not_known_makes_no_series_and_no_empty_block(openmetrics, parse):
    blocks = Blocks(openmetrics=openmetrics)
    assert blocks.add(LEVEL[:1], ['group="x"'], [None]) == 0
    assert blocks.text() == ""


def test_a_counter_named_as_a_gauge_is_of_unknown_type_in_openmetrics():
    level = (
        Metric("dead", GAUGE, "Now.", lambda number: number),
        Metric("dead_total", COUNTER, "Ever.", lambda number: number),
    )
    blocks = Blocks(openmetrics=True)
    blocks.add(level, [""], [2])
    families = list(openmetrics_families(blocks.text() + "# EOF\n"))
    assert [(f.name, f.type) for f in families] == [("dead", "gauge"), ("dead_total", "unknown")]
