"""The report: what it says, that it is one file, and that nothing hostile becomes markup."""

import math
import re

import pytest

from orderly.monitoring.backlog.advice import advice
from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.states import QueueState, Verdict
from orderly.monitoring.reporting.page import report
from orderly.monitoring.reporting.words import NOT_KNOWN
from orderly.protocol.parked_key import ParkedKey
from tests.support.reporting import Document
from tests.support.snapshots import AT, every_state, group, row, snapshot

MARKUP = "</text></style><script>alert('&')</script>"
EVIL = f"{MARKUP}\u202e\x1b[31m\ud800$\\frac{{"
ESCAPED = MARKUP + r"\u202e\x1b[31m\ud800$\frac{"


def head(key="order-8", **fields):
    known = {"tags": "", "stored_at": AT - 60, "born_at": AT, "reconsumed": 0, "size": 10}
    return Head(93, key, **(known | fields))


def trouble():
    """One of each: blocked, parked, dead, silent, a group that is well."""
    return snapshot(
        group(
            "shipping",
            [
                row(
                    QueueState.BLOCKED,
                    backlog=4711,
                    head_age=3661.0,
                    drain_eta=math.inf,
                    head=head(attempts=6, fingerprint="ValueError at stock.py:88"),
                ),
                row(queue_id=1),
            ],
            members=("c1", "c2"),
            findings=("subscriptions differ",),
        ),
        group(
            "billing",
            [
                row(
                    group="billing",
                    parked=(ParkedKey("order-7", 12, 3, 14),),
                    parked_age=7200.0,
                )
            ],
            dead=DeadLetters(1234, AT - 60, 1234),
        ),
        row(group="mailer"),
        brokers={
            "broker-a": BrokerReading("broker-a", requests=5, retention=259_200.0),
            "broker-b": BrokerReading("broker-b", error="nothing listens at 10.0.0.1:10911"),
        },
    )


def history(found, *backlogs):
    points = [Point(AT - 10 * n, backlog) for n, backlog in enumerate(reversed(backlogs))]
    return dict.fromkeys(found.groups, points[::-1])


def read(found, past=None, **how):
    return Document(report(found, past, **how))


@pytest.fixture(scope="module")
def told():
    found = trouble()
    return read(found, history(found, 1, 2), samples=13)


@pytest.mark.parametrize(
    "said",
    [
        "CRITICAL 2 of 3 groups not in order: shipping (BLOCKED), billing (parked keys); 1 broker",
        "measured 2027-01-15T08:00:00Z",
        "Backlog of DefaultCluster",
        "BLOCKED a handler works on the first message and does not return 4,711 1h1m",
        "broker-b nothing listens at 10.0.0.1:10911",
        "orders/broker-a/0 shipping BLOCKED 1h1m 93 order-8 6 ValueError at stock.py:88",
        "orders/broker-a/0 billing order-7 14 12 2h",
        f"billing 1,234 {NOT_KNOWN} 2027-01-15T07:59:00Z",
        "subscriptions differ",
        "orderly dlq list billing",
        "PARKED 1 key 14 messages wait until somebody releases them",
        "billing OK no backlog; keys are parked",
        "4,711 BLOCKED",  # in a plot
        "mailer OK no backlog 0 0s",
        "13 samples",
    ],
)
def test_it_says(told, said):
    assert said in told.text


def test_of_every_state_it_says_why_and_what_to_do():
    text = read(every_state()).text
    for found in every_state().rows():
        if found.verdict is not Verdict.OK:
            assert f"{found.queue}: it is {found.state}" in text
            assert advice(found) in text


def test_nothing_hostile_becomes_markup(told):
    queues = [
        row(QueueState.SUSPENDED, EVIL, EVIL, EVIL, cause=EVIL, parked=(ParkedKey(EVIL, 1, 2, 3),)),
        row(QueueState.STALL, EVIL, EVIL, EVIL, 1, owner=EVIL, head=head(EVIL, fingerprint=EVIL)),
    ]
    hostile = group(EVIL, queues, findings=(EVIL,), dead=DeadLetters(1, AT, 1))
    brokers = {EVIL: BrokerReading(EVIL, error=EVIL)}
    found = snapshot(hostile, brokers=brokers, cluster=EVIL)
    document = read(found, history(found, 1, 2))
    assert document.tags <= told.tags
    assert "script" not in document.tags
    assert document.text.count(ESCAPED) > 10
    assert not re.search("[\u202e\x1b\ud800]", document.source)


def test_it_is_one_file_that_loads_and_runs_nothing(told):
    document = told
    for tag, attrs in document.elements:
        assert tag not in {"script", "link", "img", "iframe", "object", "image"}
        assert not [name for name in attrs if name.startswith("on") or name == "src"]
        target = attrs.get("xlink:href") or attrs.get("href") or "#"
        assert target.startswith("#")
    assert "@import" not in document.source
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", document.source))
    policy = {"http-equiv": "Content-Security-Policy"}
    (content,) = [a["content"] for _, a in document.elements if policy.items() <= a.items()]
    assert content == "default-src 'none'; style-src 'unsafe-inline'"


def test_equal_input_gives_equal_bytes():
    found = trouble()
    assert report(found, history(found, 1, 2)) == report(found, history(found, 1, 2))


def test_no_two_elements_have_the_same_id():
    found = snapshot(*(row(group=f"g{n}", queue_id=q, backlog=9) for n in range(9) for q in (0, 1)))
    ids = read(found, history(found, 1, 2)).ids
    assert ids
    assert len(ids) == len(set(ids))


def test_hundreds_of_groups_make_a_short_report_that_says_what_it_leaves_out():
    rows = [
        row(QueueState.OFFLINE, f"g{n:03}", queue_id=q, backlog=n)
        for n in range(300)
        for q in (0, 1)
    ]
    found = snapshot(*rows)
    document = read(found, history(found, 1, 2), top=5)
    assert "290 groups" not in document.text
    assert "295 groups left out: 295 CRITICAL; 86,730 messages behind" in document.text
    assert "294 topics more left out" in document.text  # g000 has no backlog
    assert "593 queues more left out" in document.text
    assert "g295" in document.text
    assert "g294" not in document.text
    assert "300 of 300 groups not in order: g299 (OFFLINE), g298" in document.text
    assert len(document.source) < 150_000


def test_what_is_not_known_is_never_0():
    found = snapshot(group("shipping", [row(QueueState.UNKNOWN), row(QueueState.NEW, queue_id=1)]))
    text = read(found).text
    assert "UNKNOWN it could not be read" + 9 * f" {NOT_KNOWN}" in text
    assert f"behind {NOT_KNOWN} messages, 2 of 2 queues not known" in text
    assert "None" not in text


def test_a_lower_bound_says_so():
    found = snapshot(row(QueueState.UNKNOWN), row(queue_id=1, backlog=5))
    assert "it could not be read 5 or more" in read(found).text


def test_without_samples_it_says_how_to_get_drain_times():
    found = snapshot(row(backlog=7, drain_eta=None))
    assert "--samples" in read(found).text
    assert "--samples" not in read(snapshot(row(backlog=7, drain_eta=9.0))).text


def test_a_well_cluster_has_a_short_report():
    text = read(snapshot(row(), row(group="billing"))).text
    assert "OK All 2 groups in order." in text
    for heading in ("Why, and what to do", "How far behind", "They wait until", "did not answer"):
        assert heading not in text


def test_no_group_is_no_good_news():
    assert "UNKNOWN No group was found." in read(snapshot()).text


def test_a_broker_that_is_silent_is_unknown_even_if_all_that_is_seen_is_well():
    found = snapshot(row(), brokers={"b": BrokerReading("b", error="gone")})
    assert "UNKNOWN In order; 1 broker did not answer." in read(found).text
