"""What each path answers, and that nothing that is asked is larger than it should be."""

import json
from http import HTTPStatus

import pytest

from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog_json import Detail, document
from orderly.monitoring.exporting import views as module
from orderly.monitoring.exporting.text import CONTENT_TYPE
from orderly.monitoring.exporting.views import Views
from orderly.remoting.small_http import Question
from tests.support.exporting import Exporting
from tests.support.snapshots import AT, row, snapshot

SNAPSHOT = snapshot(
    row(), row(QueueState.STALL, queue_id=1), row(group="billing", topic="invoices")
)


@pytest.fixture
def exporting():
    return Exporting(SNAPSHOT)


@pytest.fixture
def ask(exporting):
    views = Views(exporting.exported)

    def answer(path, accept="", **query):
        return views.answer(Question(path, query, accept))

    return answer


def told(answer, status=HTTPStatus.OK):
    assert (answer.status, answer.content_type) == (status, "application/json")
    return json.loads(answer.body)


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4;q=0.3,*/*;q=0.1", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
    ],
)
def test_metrics_are_in_the_format_that_is_asked_for(ask, accept, openmetrics):
    answer = ask("/metrics", accept)
    assert answer.content_type == CONTENT_TYPE[openmetrics]
    assert answer.body.endswith("# EOF\n") == openmetrics
    assert 'orderly_group_backlog_messages{cluster="DefaultCluster",group="shipping"} 7' in (
        answer.body
    )


def test_it_is_live_from_the_start_and_ready_with_something_fresh():
    exporting = Exporting()
    views = Views(exporting.exported)

    def ask(path, status):
        return told(views.answer(Question(path)), status)

    assert ask("/healthz", 200) == {"live": True}
    unready = ask("/readyz", 503)
    assert unready == {"ready": False, "reasons": ["no scan is complete yet"]}
    assert "error" in ask("/api/v1/backlog", 503)
    exporting.take(snapshot(row()))
    assert ask("/readyz", 200) == {"ready": True, "reasons": []}
    exporting.clock.now += 3600
    assert ask("/readyz", 503)["reasons"] == ["what is known is 3600 s old"]
    assert ask("/healthz", 200) == {"live": True}


def test_it_is_not_ready_while_no_broker_answers_and_says_so_in_metrics(exporting, ask):
    silent = BrokerReading("broker-a", error="timed out")
    exporting.take(snapshot(row(QueueState.UNKNOWN), brokers={"broker-a": silent}))
    assert told(ask("/readyz"), 503)["reasons"] == ["no broker answered the last scan: timed out"]
    assert 'orderly_broker_up{cluster="DefaultCluster",broker="broker-a"} 0' in (
        exporting.exported.metrics()
    )
    brokers = {"broker-a": silent, "broker-b": BrokerReading("broker-b")}
    exporting.take(snapshot(row(), brokers=brokers))
    assert told(ask("/readyz"))["ready"]


@pytest.mark.parametrize("detail", list(Detail))
def test_the_backlog_is_the_document_of_the_command_line(ask, detail):
    assert told(ask("/api/v1/backlog", detail=detail)) == document(SNAPSHOT, detail)


def test_of_the_backlog_one_group_can_be_asked_for(ask):
    (found,) = told(ask("/api/v1/backlog", group="billing"))["groups"]
    assert found["group"] == "billing"
    for path in ("/api/v1/backlog", "/api/v1/history"):
        assert told(ask(path, group="nobody"), 404) == {"error": "there is no such group"}


def test_a_detail_that_is_none_is_refused(ask):
    assert (
        "group, topic, bad-queues, queue"
        in told(ask("/api/v1/backlog", detail="all"), 400)["error"]
    )


def test_a_document_of_too_many_queues_is_refused(ask, monkeypatch):
    monkeypatch.setattr(module, "MOST_QUEUES", 1)
    assert "name a group" in told(ask("/api/v1/backlog", detail="queue"), 400)["error"]
    told(ask("/api/v1/backlog", detail="queue", group="billing"))
    told(ask("/api/v1/backlog", detail="bad-queues"))
    told(ask("/api/v1/backlog", detail="topic"))


def test_the_history_is_told_by_group(ask, exporting):
    exporting.monitor.points = [(AT - 15, None), (AT, 7)]
    found = told(ask("/api/v1/history"))
    points = [[AT - 15, None], [AT, 7]]
    assert found == {
        "schema": "orderly.history/v1",
        "topic": None,
        "groups": {"billing": points, "shipping": points},
    }
    found = told(ask("/api/v1/history", group="billing", topic="invoices"))
    assert (found["topic"], list(found["groups"])) == ("invoices", ["billing"])


@pytest.mark.parametrize(
    ("path", "kind", "part"),
    [
        ("/", "text/html", b"<!doctype html>"),
        ("/page.js", "text/javascript", b"textContent"),
        ("/page.css", "text/css", b"prefers-color-scheme"),
    ],
)
def test_the_page_is_in_the_package(ask, path, kind, part):
    answer = ask(path)
    assert answer.content_type == f"{kind}; charset=utf-8"
    assert part in answer.body


@pytest.mark.parametrize("path", ["", "/x", "/metrics/", "/../etc/passwd", "/page.py", "*"])
def test_there_is_nothing_else(ask, path):
    assert "/metrics" in told(ask(path), 404)["error"]


def test_the_page_has_no_way_to_make_markup_of_texts(ask):
    script = ask("/page.js").body.decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("):
        assert way not in script
