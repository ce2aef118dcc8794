"""An audit of a real topic finds what was planted in it, all of it and no more."""

import json
from collections import Counter

import pytest

from orderly.foreign_text import hidden
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.reading import shown
from orderly.spark.jobs.audit.run import AuditSettings, run
from orderly.spark.jobs.output import Output
from tests.support.audited_flights import NUMBER, Planted, flights, send
from tests.support.waiting import eventually

LIMIT = 6_000
pytest.importorskip("matplotlib")


def told(result):
    return Counter(
        (row.kind, row.key, row.message.seq, row.distance)
        for row in result.tables.evidence.collect()
    )


def settings(namesrv, topic):
    return AuditSettings({"namesrv": namesrv, "topic": topic}, NUMBER)


def all_stored(asked, count):
    """Until the queues are built: a send's answer comes some milliseconds before."""
    eventually(lambda: sum(each.messages for each in pin(asked.source)) == count, every=0.1)


def test_flights_sent_in_order_are_in_order(spark, orderly_namesrv, orderly_topic):
    topic = orderly_topic(4)
    send(orderly_namesrv, topic, flights(LIMIT))
    asked = settings(orderly_namesrv, topic)
    all_stored(asked, LIMIT)
    result = run(spark, asked)
    assert result.verdict is Verdict.OK, result.headline
    assert (result.figures.judged, result.figures.keyless) == (LIMIT, 0)
    assert result.figures.keys == len({event.key for event in flights(LIMIT)})
    assert told(result) == {}
    born = run(spark, AuditSettings(asked.source))
    assert born.verdict is Verdict.OK, born.headline
    unknown = run(spark, AuditSettings(asked.source, "no-such-property"))
    assert unknown.verdict is Verdict.UNKNOWN
    assert "'no-such-property'" in unknown.headline


def test_an_empty_topic_is_not_judged(spark, orderly_namesrv, orderly_topic):
    result = run(spark, settings(orderly_namesrv, orderly_topic(2)))
    assert result.verdict is Verdict.UNKNOWN
    assert result.headline == "Not judged: there are no messages in what was read."


@pytest.fixture(scope="module")
def planted():
    return Planted(LIMIT)


def test_all_that_is_wrong_is_found(spark, orderly_namesrv, orderly_topic, planted, tmp_path):
    topic = orderly_topic(4)
    send(orderly_namesrv, topic, *planted.rounds)
    asked = settings(orderly_namesrv, topic)
    all_stored(asked, planted.messages)

    with Output(tmp_path / "out") as output:
        at_once = run(spark, asked, output)
    assert told(at_once) == Counter(planted.wrong)
    found = at_once.figures
    assert (found.messages, found.keyless, found.unnumbered) == (planted.messages, 7, 3)
    assert (found.moved, found.mixed) == (7, 2)
    assert found.missing == 5
    assert at_once.verdict is Verdict.CRITICAL
    mixed = at_once.tables.keys.where("mixed").collect()
    assert {row.key for row in mixed} == set(planted.mixed)

    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["headline"] == at_once.headline
    assert written["figures"]["inversions"] == 7
    kept = spark.read.parquet(output.path("evidence"))
    assert kept.count() == len(planted.wrong)
    page = (tmp_path / "out" / "report.html").read_text()
    assert planted.mixed[0] in page


def test_hashes_in_tables_are_those_of_redacted_keys_everywhere(spark):
    keys = ["whale", "", "ключ", "7", "a b", None]
    rows = spark.createDataFrame([(key,) for key in keys], "key string")
    found = shown(rows, "key", AuditSettings({}, redact_keys=True)).collect()
    assert [row.key for row in found] == [key if key is None else hidden(key) for key in keys]
