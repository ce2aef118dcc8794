"""The page at /, in a browser: what it shows, and that nothing hostile becomes markup."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from orderly.cli.backlog.listing import FIELDS
from orderly.monitoring.backlog.advice import advice
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.exporter import Views
from orderly.protocol.parked_key import ParkedKey
from orderly.small_http import Server
from tests.support.programs import browser
from tests.support.snapshots import AT, Exporting, group, row, snapshot

pytestmark = pytest.mark.needs("chromium")

MARKUP = "<img src=x onerror=document.title='hacked'>"
NOT_KNOWN = "\N{EN DASH}"
QUICKLY = "setInterval = (work) => { window.lookAgain = work; }"  # tests say when it looks again


@pytest.fixture(scope="module")
def page():
    with browser() as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=QUICKLY)
        yield page


@pytest.fixture
def exporting():
    exporting = Exporting(healthy_and_not())
    exporting.monitor.points = [(AT - 30, 5), (AT - 15, None), (AT - 10, 9), (AT, 7)]
    return exporting


@pytest.fixture
def opened(page, exporting):
    """The page, with what is exported; nothing that it complained of in the test stays unseen."""
    page.complaints.clear()
    with Server("127.0.0.1", 0, Views(exporting.exported).answer, "exporter") as server:
        page.open(f"http://127.0.0.1:{server.port}/")
        page.eventually("document.querySelectorAll('tr.group').length > 0")
        yield page
        page.open("about:blank")
    # that it is not ready is an answer like any other
    assert [complaint for complaint in page.complaints if "503" not in complaint] == []


def healthy_and_not(*more, at=AT, **fields):
    head = Head(93, MARKUP, "", AT, AT, 0, 9, attempts=4)
    blocked = row(QueueState.BLOCKED, queue_id=2, backlog=1312, cause=MARKUP, head=head)
    return snapshot(
        group("shipping", [row(), row(queue_id=1), blocked], members=("m1", "m2"), idle=("m2",)),
        group("audit", [row(group="audit")]),
        group("mail", [row(QueueState.LAGGING, "mail")], dead=DeadLetters(12, None, 12)),
        group("<b>bold</b>", [row(group="<b>bold</b>", topic=MARKUP)], findings=(MARKUP,)),
        *more,
        at=at,
        **fields,
    )


def texts(page, selector):
    return page.evaluate(
        f"[...document.querySelectorAll({selector!r})].map((e) => e.innerText.trim())"
    )


def click(page, name):
    page.evaluate(
        f"[...document.querySelectorAll('button')].find((b) => b.textContent === {name!r}).click()"
    )


def look_again(page):
    page.evaluate("lookAgain()")


def test_groups_in_trouble_come_first_with_their_figures(opened):
    assert texts(opened, "tr.group button") == ["shipping", "mail", "<b>bold</b>", "audit"]
    first = texts(opened, "tr.group:first-child td")
    assert first[:2] == ["BLOCKED", "1,312"]
    assert first[-1] == "2, 1 idle"
    assert texts(opened, "#verdicts li") == ["1 CRITICAL", "1 WARNING", "2 OK"]
    assert texts(opened, "#cluster") == ["DefaultCluster"]
    mail = texts(opened, "tr.group:has([data-key=mail]) td")
    assert mail[-2] == "12"
    assert mail[-1] == NOT_KNOWN


def test_topics_and_queues_open_and_close_by_keyboard(opened):
    opened.press("Tab")
    opened.evaluate("document.querySelector('tr.group button').focus()")
    opened.press("Enter")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    assert opened.evaluate("document.activeElement.textContent") == "shipping"
    assert opened.evaluate("document.activeElement.ariaExpanded") == "true"
    opened.press("Tab")
    opened.press(" ")
    opened.eventually("document.querySelectorAll('tr.queue').length === 3")
    assert texts(opened, "tr.queue th") == [f"broker-a / {n}" for n in range(3)]
    assert texts(opened, "tr.queue .chip") == ["OK", "OK", "BLOCKED"]
    opened.press(" ")
    opened.eventually("document.querySelectorAll('tr.queue').length === 0")


def test_what_is_opened_stays_open_and_is_renewed(opened, exporting):
    click(opened, "shipping")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    exporting.take(snapshot(group(rows=[row(QueueState.STALL, backlog=4)]), at=AT + 15))
    look_again(opened)
    opened.eventually("document.querySelector('tr.topic .chip').textContent === 'STALL'")
    assert texts(opened, "tr.group button") == ["shipping"]


def test_a_group_can_be_found_and_trouble_looked_at_alone(opened):
    opened.press("/")
    for key in "AUD":
        opened.press(key)
    opened.eventually("document.querySelectorAll('tr.group').length === 1")
    assert texts(opened, "tr.group button") == ["audit"]
    opened.press("Escape")
    opened.eventually("document.querySelectorAll('tr.group').length === 4")
    opened.evaluate("document.getElementById('bad').click()")
    opened.eventually("document.querySelectorAll('tr.group').length === 2")
    click(opened, "shipping")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    click(opened, "orders")
    opened.eventually("document.querySelectorAll('tr.queue').length === 1")
    opened.press("/")
    for key in "zzz":
        opened.press(key)
    opened.eventually("document.querySelectorAll('tr.group').length === 0")
    assert texts(opened, "#empty") == ["No group matches."]


def test_a_group_says_why_it_is_in_trouble_without_being_opened(opened, exporting):
    held = (ParkedKey("bad", 3, 0, 2, 200), ParkedKey("worse", 4, 0, 1, 100))
    offline = [row(QueueState.OFFLINE, queue_id=n, cause="nobody is online") for n in range(3)]
    parked = row(group="mail", parked=held)
    exporting.take(snapshot(group("shipping", offline), group("mail", [parked]), at=AT + 15))
    look_again(opened)
    opened.eventually("document.querySelectorAll('tr.of-group').length === 2")
    assert texts(opened, "tr.of-group") == [
        "3 queues, first orders/broker-a/0: nobody is online", "2 keys parked, with 3 messages",
    ]  # fmt: skip
    chips = "[...document.querySelectorAll('tr.group')].at(-1).querySelectorAll('.chip')"
    shown = opened.evaluate(f"[...{chips}].map(c => [c.textContent, c.className])")
    assert shown == [["OK", "chip OK"], ["PARKED 2 keys", "chip WARNING"]], "OK is never amber"


def test_its_columns_have_the_names_of_the_tables(opened):
    names = {field.column.name for field in FIELDS} | {"group, topic, queue", "trend", "in", "out"}
    assert {text.lower() for text in texts(opened, "thead th")} <= names


def at_address(page, query):
    page.go(page.evaluate("location.origin") + "/" + query)
    page.eventually("document.querySelectorAll('tr.group').length > 0")


def query(page):
    return page.evaluate("location.search")


def test_an_alerts_link_shows_the_group_first_and_what_is_wrong_there(opened):
    at_address(opened, "?group=audit&group=shipping")
    opened.eventually("document.querySelectorAll('tr.topic').length === 2")
    opened.eventually("document.querySelectorAll('tr.queue').length === 3")
    assert texts(opened, "tr.group button")[:2] == ["shipping", "audit"]
    assert texts(opened, "tr.queue .chip") == ["OK", "OK", "BLOCKED"], "audit is well: closed"
    assert query(opened) == "?group=audit&group=shipping&topic=shipping/orders"


def test_what_is_shown_is_in_the_address_and_comes_back(opened):
    assert query(opened) == ""
    click(opened, "mail")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    opened.evaluate("document.getElementById('bad').click()")
    opened.press("/")
    for key in "MAI":
        opened.press(key)
    opened.eventually("document.querySelectorAll('tr.group').length === 1")
    assert query(opened) == "?group=mail&filter=MAI&bad=1"
    at_address(opened, query(opened))
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    assert texts(opened, "tr.group button") == ["mail"]
    assert opened.evaluate("document.getElementById('filter').value") == "MAI"
    assert opened.evaluate("document.getElementById('bad').checked")
    opened.press("/")
    opened.press("Escape")
    click(opened, "mail")
    opened.eventually("document.querySelectorAll('tr.topic').length === 0")
    assert query(opened) == "?bad=1"


def test_a_link_to_a_group_that_is_gone_says_so(page, exporting):
    with Server("127.0.0.1", 0, Views(exporting.exported).answer, "exporter") as server:
        page.open(f"http://127.0.0.1:{server.port}/?group={quote(MARKUP)}")
        page.eventually("document.querySelectorAll('tr.note').length > 0")
        assert texts(page, "tr.note")[0].startswith(f"There is no group {MARKUP}: it was deleted")
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        page.open("about:blank")


def test_a_groups_own_retries_are_shown_only_if_there_are_some(opened, exporting):
    retries = row(topic="%RETRY%shipping", backlog=0)
    exporting.take(snapshot(group("shipping", [row(), retries]), at=AT + 15))
    look_again(opened)
    opened.eventually("document.querySelectorAll('tr.group').length === 1")
    click(opened, "shipping")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    waiting = row(topic="%RETRY%shipping", backlog=4)
    exporting.take(snapshot(group("shipping", [row(), waiting]), at=AT + 30))
    look_again(opened)
    opened.eventually("document.querySelectorAll('tr.topic').length === 2")
    assert texts(opened, "tr.topic th") == ["%RETRY%shipping", "orders"]


def test_an_id_is_broken_behind_a_mark_and_never_in_a_word(opened, exporting):
    owner, name = "10.20.30.40@123456#0123456789abcdef", "the-shipping-of-orders-of-the-whole-world"
    exporting.take(snapshot(group(name, [row(group=name, owner=owner)]), at=AT + 15))
    opened.resize(980, 800)
    look_again(opened)
    opened.eventually("document.querySelectorAll('tr.group').length === 1")
    click(opened, name)
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    click(opened, "orders")
    opened.eventually("document.querySelectorAll('tr.queue').length === 1")
    assert owner in texts(opened, "tr.queue td:last-child")
    broken_behind = set(opened.evaluate(ENDS_OF_LINES))
    assert broken_behind
    assert broken_behind <= {*"-.@#"}


ENDS_OF_LINES = """
(() => {
  const ends = [];
  for (const e of document.querySelectorAll("tbody th, tbody td:last-child")) {
    const walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
    let last = null, before = "";
    while (walker.nextNode()) {
      const text = walker.currentNode;
      for (let n = 0; n < text.length; n += 1) {
        const range = document.createRange();
        range.setStart(text, n);
        range.setEnd(text, n + 1);
        const { top } = range.getBoundingClientRect();
        if (last !== null && top > last + 4) ends.push(before);
        [last, before] = [top, text.data[n]];
      }
    }
  }
  return ends;
})()
"""


def test_what_is_not_known_is_a_gap_in_the_trend(opened):
    lines = opened.evaluate(
        "[...document.querySelector('tr.group svg').children].map((l) => l.getAttribute('points'))"
    )
    assert len(lines) == 2
    assert lines[0].endswith("10.0"), "5 of 9 messages: half-way up"


def test_nothing_of_others_becomes_markup(opened):
    click(opened, "shipping")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    click(opened, "orders")
    opened.eventually("document.querySelectorAll('tr.of-queue').length === 3")
    click(opened, "<b>bold</b>")
    opened.eventually("document.querySelectorAll('tr.topic').length === 2")
    assert texts(opened, "tr.of-queue")[0] == MARKUP
    assert f"key {MARKUP}" in texts(opened, "tr.of-queue")[1]
    assert MARKUP in texts(opened, "tr.of-group")
    assert texts(opened, "tr.of-group")[0] == f"orders/broker-a/2: {MARKUP}"
    assert opened.evaluate("document.querySelectorAll('img, b').length") == 0
    assert opened.evaluate("document.title") == "Backlog"


def test_what_to_do_is_said_once_for_queues_alike(opened, exporting):
    offline = [row(QueueState.OFFLINE, queue_id=n, owner=None) for n in range(3)]
    exporting.take(snapshot(*offline, at=AT + 15))
    look_again(opened)
    opened.eventually("document.querySelectorAll('tr.group').length === 1")
    click(opened, "shipping")
    opened.eventually("document.querySelectorAll('tr.topic').length === 1")
    click(opened, "orders")
    opened.eventually("document.querySelectorAll('tr.queue').length === 3")
    remarks = texts(opened, "tr.of-queue")
    assert remarks == ["it is OFFLINE", f"Next: {advice(offline[0])}", *["it is OFFLINE"] * 2]


def test_it_says_how_old_it_is_and_what_is_wrong(opened, exporting):
    assert texts(opened, "#trouble") == [""]
    brokers = {"broker-b": BrokerReading("broker-b", error=MARKUP)}
    now = time.time()
    exporting.take(healthy_and_not(at=now - 7230, brokers=brokers))
    exporting.clock.now, exporting.monitor.last_error = now, "no name server answered"
    look_again(opened)
    opened.eventually("!document.getElementById('trouble').hidden")
    assert "no name server answered" in texts(opened, "#trouble")[0]
    assert texts(opened, "#age") == ["read 2 h ago"]
    assert opened.evaluate("document.getElementById('age').className") == "stale"
    assert texts(opened, "#brokers li") == ["broker-b does not answer"]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_window_and_is_readable(opened, exporting, width, scheme, tmp_path):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.call("Emulation.setEmulatedMedia", features=features)
    opened.resize(width, 800)
    exporting.take(
        healthy_and_not(
            row(QueueState.UNKNOWN, "search"), row(QueueState.SUSPENDED, "returns"), at=AT + 15
        )
    )
    look_again(opened)
    opened.eventually("document.querySelector('.chip.UNKNOWN') !== null")
    for selector in ("html", "main"):
        assert opened.evaluate(f"document.querySelector('{selector}').scrollWidth") <= width
    assert min(opened.evaluate(CONTRASTS).values()) >= 4.5, "WCAG AA"
    picture = tmp_path / f"{scheme}-{width}.png"
    opened.screenshot(picture)
    assert picture.stat().st_size > 5000


# The contrast of each text with what is behind it, by the formula of WCAG 2.
CONTRASTS = """
(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = parse(color).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if ((parse(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = {};
  const texts = "h1, #cluster, #age, .chip, th, td, button, footer a";
  for (const e of document.querySelectorAll(texts)) {
    const [one, other] = [light(getComputedStyle(e).color), light(behind(e))];
    found[`${e.tagName}.${e.className} ${e.textContent}`] =
      (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  }
  return found;
})()
"""
