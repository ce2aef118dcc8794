"""The backlog job finds in a made history exactly what was put into it; and reads a real one."""

import json
from datetime import UTC, datetime

import pytest

from orderly import Ack, Client, Message, OrderlyConsumer, OrderlyProducer
from orderly.cli.monitoring import monitor_of
from orderly.cli.root import run as command_line
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.recording.reading import find_history
from orderly.monitoring.recording.recorder import Recorder
from orderly.spark.jobs.backlog.run import BacklogSettings, run
from orderly.spark.jobs.output import Output
from tests.support.backlog_history import MONDAY, USUAL, MadeHistory
from tests.support.consuming import unique
from tests.support.waiting import eventually

DAYS = 3
MINUTES = DAYS * 24 * 60
SHIPPING = 4  # queues


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A history, and what was planted: (group, queue, measure, first, last minute, how, worst)."""
    history = MadeHistory({"shipping": SHIPPING, "billing": 1}, MINUTES)
    incidents = []

    def broken(group, queue, first, count, ended="over", worst=500, measure="backlog"):
        peak = [worst - abs(place - count // 2) for place in range(count)]
        history.change(group, queue, range(first, first + count), **{measure: peak})
        end = first + count if ended == "over" else first + count - 1
        incidents.append((group, queue, measure, first, end, ended, worst))

    for number in range(20):  # one after the other over the queues, each a bit longer
        broken("shipping", number % SHIPPING, 30 + 60 * number, 5 + number, worst=200 + number)
    broken("billing", 0, 100, 7, worst=900)
    broken("billing", 0, 1500, 30, measure="head_age", worst=1000)
    broken("shipping", 1, 1990, 10, ended="not measured")
    broken("shipping", 2, MINUTES - 9, 9, ended="goes on")
    history.forget(range(2000, 2100))
    history.hide("shipping", 3, range(3000, 3020))
    history.stop("billing", 0, range(2500, 2508))
    directory = tmp_path_factory.mktemp("history")
    history.write(directory)
    return directory, incidents


@pytest.fixture(scope="module")
def result(spark, planted, tmp_path_factory):
    settings = BacklogSettings(planted[0], slo_messages=100, slo_age=300.0)
    out = tmp_path_factory.mktemp("out") / "backlog"
    with Output(out) as output:
        return run(spark, settings, output), out


def minute(time):
    """Of the history; Spark's times are local ones without a zone."""
    return round((time.astimezone(UTC).timestamp() - MONDAY) / 60)


def test_exactly_the_planted_incidents_are_found_in_queues_and_in_groups(result, planted):
    rows = [row.asDict() for row in result[0].incidents.collect()]
    found = {
        (
            row["level"], row["group"], row["queue_id"], row["measure"], minute(row["begin"]),
            minute(row["end"]), row["ended"], row["worst"],
        )
        for row in rows
    }  # fmt: skip
    others = {"shipping": (SHIPPING - 1) * USUAL, "billing": 0}
    expected = set()
    for group, queue, measure, *when, worst in planted[1]:
        of_group = worst + others[group] * (measure == "backlog")
        expected |= {("queue", group, queue, measure, *when, worst),
                     ("group", group, -1, measure, *when, of_group)}  # fmt: skip
    assert found == expected
    assert len(rows) == len(expected)


def test_a_broken_promise_is_the_verdict(result, planted):
    found, out = result
    assert found.verdict is Verdict.CRITICAL
    assert "2 of 2 groups broke a promise" in found.headline
    document = json.loads((out / "result.json").read_text())
    assert document["schema"] == "orderly.spark.backlog/v1"
    assert document["verdict"] == "CRITICAL"
    assert document["figures"]["incidents"] == len(planted[1])


def test_gaps_are_gaps_in_every_group_and_queue(result):
    gaps = {
        (row["level"], row["group"], row["queue_id"], minute(row["begin"]), minute(row["end"]))
        for row in result[0].gaps.collect()
    }
    everywhere = [("queue", "shipping", queue) for queue in range(SHIPPING)] + [
        ("queue", "billing", 0), ("group", "shipping", -1), ("group", "billing", -1),
    ]  # fmt: skip
    unread = {("queue", "shipping", 3, 2999, 3020), ("group", "shipping", -1, 2999, 3020)}
    assert gaps == {(*where, 1999, 2100) for where in everywhere} | unread


def test_the_standstill_is_found(result):
    [row] = result[0].stuck.where("level = 'queue'").collect()
    assert (
        row["group"],
        minute(row["begin"]),
        minute(row["end"]),
        row["backlog"],
        row["came"],
    ) == ("billing", 2500, 2508, USUAL, 70)


def test_a_queue_that_could_not_be_read_does_not_make_its_group_smaller(result):
    points = {
        minute(datetime.fromtimestamp(row["at"], UTC)): row["backlog"]
        for row in result[0].curve.where("group = 'shipping'").collect()
    }
    assert min(points.values()) == SHIPPING * USUAL
    assert not any(2002 < at < 2085 or 3002 < at < 3005 for at in points)


def test_hours_never_measured_lack_in_the_profile_of_the_week(result):
    cells = {
        (row["weekday"], row["hour"]): row["samples"]
        for row in result[0].season.where("level = 'group' and group = 'billing'").collect()
    }
    assert len(cells) == DAYS * 24 - 1  # 100 minutes hide one whole hour
    assert (2, 10) not in cells  # Tuesday from 09:20 to 11:00
    assert cells[2, 9] == 20
    assert set(cells.values()) == {60, 20}


def test_figures_of_a_queue_are_those_of_its_samples(result):
    [row] = result[0].queues.where("group = 'billing'").collect()
    assert (row["samples"], row["measured"], row["incidents"], row["stuck"]) == (4220, 4220, 2, 1)
    assert row["median"] == USUAL
    assert row["most"] == 900
    assert row["in_rate"] == pytest.approx(10 / 60, rel=1e-3)


def test_tables_of_the_output_are_those_of_the_result(result, spark):
    found, out = result
    tables = json.loads((out / "result.json").read_text())["tables"]
    assert set(tables) == {"groups", "queues", "incidents", "stuck", "gaps", "season", "curve"}
    assert spark.read.parquet(str(out / "incidents")).count() == found.incidents.count()


def test_the_command_looks_at_the_groups_and_times_it_is_told(spark, planted, capsys):
    command = ["spark", "backlog", str(planted[0]), "--slo", "100", "-q", "-o", "json"]
    asked = ["-g", "bill*", "--from", "2026-11-17", "--to", "2026-11-18T00:00:00Z"]
    assert command_line([*command, *asked]) == 0
    document = json.loads(capsys.readouterr().out)
    [group] = document["figures"]["groups"]
    assert (group["group"], group["samples"], group["incidents"]) == ("billing", 24 * 60 - 100, 0)
    assert command_line([*command, "-g", "nobody"]) == 3
    assert "no snapshot of these groups" in capsys.readouterr().err


def test_a_real_group_is_recorded_and_judged_while_the_recorder_writes(
    spark, orderly_namesrv, orderly_topic, tmp_path
):
    topic, group = orderly_topic(queues=1), unique("history")
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        [producer.send(Message(topic, b"x", sharding_key="k")) for _ in range(30)]
    with OrderlyConsumer(group, lambda *_: Ack(), namesrv=orderly_namesrv).subscribe(topic):
        pass  # the group is known from now on
    with (
        Client(namesrv=orderly_namesrv) as client,
        Recorder(tmp_path, interval=1.0) as recorder,
        monitor_of(client, Selection((group,)), 1.0, recorder.take),
    ):
        queue = MessageQueue(topic, "broker-a", 0)
        client.brokers.update_offset(group, queue, 10)
        eventually(lambda: measured(tmp_path, topic).count(20) >= 4, 60)
        client.brokers.update_offset(group, queue, 30)
        eventually(lambda: measured(tmp_path, topic)[-1] == 0, 60)
        found = run(spark, BacklogSettings(tmp_path, slo_messages=15, stuck_after=2))
    assert found.verdict is Verdict.CRITICAL
    [incident] = found.incidents.where("level = 'queue'").collect()
    assert (incident["group"], incident["worst"], incident["ended"]) == (group, 20, "over")
    [figures] = found.findings.groups
    assert (figures["most"], figures["last"], figures["stuck"]) == (20, 0, 1)


def measured(directory, topic):
    """The backlogs of a topic that a recorder has written so far."""
    try:
        rows = find_history(directory).growing.to_pylist()
    except ConfigError:
        return [None]
    return [row["backlog"] for row in rows if row["topic"] == topic] or [None]
