"""The report of a backlog: the worst first, bounded, and nothing hostile becomes markup."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.advice import advice
from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.snapshot import QueueSkew, TopicStatus
from orderly.monitoring.backlog.states import QueueState, Verdict
from orderly.protocol.parked_key import ParkedKey
from orderly.report.backlog import backlog_report, first, troubles, worked_off
from orderly.report.page import html
from orderly.report.words import NOT_KNOWN
from tests.support.programs import Document
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
    return Document(html(backlog_report(found, past, **how)))


@pytest.fixture(scope="module")
def told():
    found = trouble()
    return read(found, history(found, 1, 2), samples=13)


@pytest.mark.parametrize(
    "said",
    [
        "CRITICAL 2 of 3 groups not in order: shipping (BLOCKED), billing (parked keys); 1 broker",
        "Backlog of DefaultCluster 2027-01-15T08:00:00Z",
        "BLOCKED the handler of the first message does not return 4,711 1h1m",
        "broker-b nothing listens at 10.0.0.1:10911",
        "orders/broker-a/0 shipping BLOCKED 1h1m 93 order-8 6 ValueError at stock.py:88",
        "orders/broker-a/0 billing order-7 14 12 2h",
        f"billing 1,234 {NOT_KNOWN} 2027-01-15T07:59:00Z",
        "subscriptions differ",
        "orderly dlq list billing",
        "PARKED 1 key 14 messages wait until somebody releases them",
        "billing OK PARKED 1 key DEAD 1,234 messages no backlog",
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
    report = backlog_report(found, history(found, 1, 2))
    assert html(report) == html(report)


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
    assert f"backlog {NOT_KNOWN} messages, 2 of 2 queues not known" in text
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


# --- what is chosen ------------------------------------------------------------------------------


def told_of(*parts, top=20, **fields):
    """The sections of a report, by title."""
    return {it.title: it for it in backlog_report(snapshot(*parts, **fields), top=top).sections}


def names(section):
    """What stands at the beginning of each row."""
    return [cells[0] for cells in section.tables[0].rows]


@given(st.lists(st.integers()), st.integers(1, 20))
def test_the_first_and_the_rest_are_all(many, most):
    shown, more = first(many, most, lambda it: it)
    assert shown == sorted(many)[:most]
    assert len(shown) + more == len(many)


def test_groups_come_worst_first_then_furthest_behind():
    found = told_of(
        row(QueueState.GROWING, "growing", backlog=99_999),
        row(QueueState.UNKNOWN, "unknown"),
        row(QueueState.STALL, "stall-5", backlog=5),
        row(QueueState.STALL, "stall-9", backlog=9),
        row(group="well", backlog=10**9),
    )
    worst = ["stall-9", "stall-5", "unknown", "growing", "well"]
    assert names(found["Groups"]) == worst
    assert [case.name for case in found["Why, and what to do"].cases] == worst[:-1]


def test_what_is_wrong_with_a_group_comes_worst_first_and_few_queues_stand_for_many():
    rows = [row(QueueState.UNKNOWN, queue_id=9), row(QueueState.GROWING, queue_id=8)]
    rows += [row(QueueState.STALL, queue_id=n, backlog=n) for n in range(1, 6)]
    found = list(troubles(group("shipping", rows, findings=("odd",))))
    assert [each.name for each in found] == ["STALL", "UNKNOWN", "GROWING", "ODD"]
    assert found[0].where.startswith("5 queues")
    assert [fact.partition(":")[0] for fact in found[0].facts] == [
        "orders/broker-a/5",
        "orders/broker-a/4",
        "orders/broker-a/3",
        "and 2 queues more, with 3 messages",
    ]


def test_a_group_that_only_looks_odd_is_told_of_and_is_no_warning():
    found = snapshot(
        group("odd", [row(group="odd")], findings=("two owners",)),
        group("plain", [row(group="plain")]),
    )
    report = backlog_report(found)
    assert report.verdict is Verdict.OK
    assert [case.name for section in report.sections for case in section.cases] == ["odd"]


def test_the_oldest_heads_come_first_whether_or_not_their_message_was_read():
    found = told_of(
        row(queue_id=0, backlog=1, head_age=40.0),
        row(queue_id=1, backlog=1, head_age=None, head=Head(1, "k", "", AT - 50, AT, 0, 1)),
        row(queue_id=2, backlog=1, head_age=None),
        row(queue_id=3, backlog=1, head_age=60.0),
        row(queue_id=4, backlog=0),
    )
    heads = names(found["Head of line: what waits longest"])
    assert heads == ["orders/broker-a/3", "orders/broker-a/1", "orders/broker-a/0"]


def test_skew_of_a_topic_is_told_once():
    skew = QueueSkew(2.0, 0.5, 1.0, 0.5, row().queue)

    def skewed(name):
        status = group(name, [row(group=name), row(group=name, queue_id=1)])
        topic = status.topics["orders"]
        of_topic = TopicStatus(name, "orders", topic.sums, skew, topic.make_rows)
        return replace(status, topics={"orders": of_topic})

    found = told_of(skewed("a"), skewed("b"))
    assert names(found["Queues, and how even they are"]) == ["orders"]


def test_the_largest_parked_keys_come_first():
    keys = tuple(ParkedKey(f"k{n}", 0, 0, n) for n in (3, 9, 1))
    (table,) = told_of(row(parked=keys), top=2)["Parked keys"].tables
    assert [cells[2] for cells in table.rows] == ["k9", "k3"]
    assert table.left_out == 1


def drain_plot(*rows):
    return told_of(*rows)["How far behind"].plots[1]


def test_topics_that_drain_last_come_first_and_unknown_ones_not_at_all():
    plot = drain_plot(
        row(group="soon", backlog=5, drain_eta=5.0),
        row(QueueState.STALL, "endless", backlog=5, drain_eta=math.inf),
        row(group="who-knows", backlog=5, drain_eta=None),
        row(group="idle"),
    )
    text = Document(plot.svg).text
    assert text.index("endless") < text.index("soon")
    assert "who-knows" not in text
    assert text.count("never") == 1


@pytest.mark.parametrize(
    ("state", "eta", "out_rate", "said"),
    [
        (QueueState.OK, math.inf, 9.9, "keeps up"),
        (QueueState.OK, math.inf, 5.0, "never"),
        (QueueState.OK, math.inf, None, "never"),
        (QueueState.STALL, math.inf, 9.9, "never"),
        (QueueState.OK, 7.0, 9.9, "7s"),
    ],
)
def test_messages_that_are_on_their_way_are_no_backlog_that_never_ends(state, eta, out_rate, said):
    queue = row(state, backlog=3, drain_eta=eta, in_rate=10.0, out_rate=out_rate)
    (status,) = snapshot(queue).groups.values()
    assert worked_off(status.sums) == said
    assert bool(drain_plot(queue).svg) == (said != "keeps up")


def test_of_too_many_queues_the_largest_are_drawn():
    queues = [row(QueueState.STALL, queue_id=n, backlog=n) for n in range(200)]
    (plot,) = told_of(group("shipping", queues))["Queues, and how even they are"].plots
    assert len(re.findall(r"fill: var\(--fill-critical\)", plot.svg)) == 64
    assert plot.note == "The 64 largest of 200 queues."
