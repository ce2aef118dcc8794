"""A job's report: what it says, that it is one file, and that nothing hostile becomes markup."""

import re
from dataclasses import replace

import pytest

from orderly.monitoring.reporting.words import NOT_KNOWN
from orderly.spark.reporting.page import report_html
from tests.support.job_reports import origin, report
from tests.support.reporting import Document

MARKUP = "</text></style><script>alert('&')</script>"
EVIL = f"{MARKUP}\u202e\x1b[31m\ud800$\\frac{{"
ESCAPED = MARKUP + r"\u202e\x1b[31m\ud800$\frac{"


@pytest.fixture(scope="module")
def told():
    return Document(report_html(report()))


@pytest.mark.parametrize(
    "said",
    [
        "CRITICAL 2 inversions in 1 of 4,037 keys: N328AA",
        "Order of N328AA 2027-01-15T08:00:00Z",
        "messages 336,776 in 4 queues",
        "Worst first. A key is out of order",
        "N328AA N328AA 12,345 1,234.57 25 % 1m1s 2027-01-15T08:00:00Z CRITICAL",
        f"N12 broker-a/1 0 {NOT_KNOWN} <0.1 % {NOT_KNOWN} {NOT_KNOWN} OK",
        "1,234 keys more left out.",
        "flights : 4,902 offsets of 4 queues",
        "broker-a/3 10 1,237 1,227",
        "Made by orderly spark audit: orderly 0.1.0, pyspark 4.3.0.",
        "Ringed: out of order.",
    ],
)
def test_it_says(told, said):
    assert said in told.text


def test_nothing_hostile_becomes_markup(told):
    document = Document(report_html(report(EVIL)))
    assert document.tags <= told.tags
    assert "script" not in document.tags
    assert document.text.count(ESCAPED) > 8
    assert not re.search("[\u202e\x1b\ud800]", document.source)


def test_it_is_one_file_that_loads_and_runs_nothing(told):
    for tag, attrs in told.elements:
        assert tag not in {"script", "link", "img", "iframe", "object", "image"}
        assert not [name for name in attrs if name.startswith("on") or name == "src"]
        target = attrs.get("xlink:href") or attrs.get("href") or "#"
        assert target.startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", told.source))
    assert "default-src &#39;none&#39;" in told.source or "default-src 'none'" in told.source


def test_no_two_elements_have_the_same_id(told):
    assert told.ids
    assert len(told.ids) == len(set(told.ids))


def test_equal_contents_give_equal_bytes():
    assert report_html(report()) == report_html(report())


def test_a_job_that_read_no_topic_says_nothing_of_offsets():
    text = Document(report_html(replace(report(), origin=origin(read=())))).text
    assert "offsets of" not in text
    assert "seqProperty seq" in text
