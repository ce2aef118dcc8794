from dataclasses import replace

import pytest

from orderly.errors import ConfigError
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.backlog.findings import Findings, promises, where
from orderly.spark.jobs.backlog.settings import BacklogSettings

HOUR = 3600.0


def group(name="shipping", **fields):
    known = {
        "group": name, "begin": 0.0, "end": HOUR, "samples": 60, "measured": 60,
        "aged": 60,
        "measured_seconds": HOUR, "most": 5, "most_at": 60.0, "incidents": 0, "stuck": 0,
        "gaps": 0, "breached_seconds": 0.0,
    }  # fmt: skip
    return known | fields


def found(*groups, **fields):
    nothing = dict.fromkeys(("queues", "incidents", "stuck", "gaps", "season", "curve"), ())
    known = {
        "limits": {"backlog": 100}, "begin": 0.0, "end": HOUR, "groups": groups, **nothing,
        "queue_count": 4, "stuck_count": 0, "step": 60.0,
    }  # fmt: skip
    return Findings(**known | fields)


def test_who_broke_a_promise_is_named_with_how_often_and_how_long():
    it = found(group(incidents=2, breached_seconds=600.0), group("billing"))
    assert it.verdict is Verdict.CRITICAL
    assert it.headline == "1 of 2 groups broke a promise over 1h: shipping (2 incidents, 10m)."


def test_many_that_broke_promises_are_counted():
    it = found(*(group(f"g{n}", incidents=1) for n in range(5)))
    assert "g2 (1 incident, 0s) and 2 more." in it.headline


def test_a_promise_kept_is_said_with_its_limits():
    it = found(group(), limits={"backlog": 100, "head_age": 300.0})
    assert it.verdict is Verdict.OK
    assert it.headline == (
        "Kept over 1h, by 1 group: at most 100 messages behind, none waiting for more than 5m."
    )


def test_without_a_promise_the_furthest_behind_is_named():
    it = found(group(), group("billing", most=70), limits={})
    assert "at most 70 messages behind (billing, 1970-01-01T00:01:00Z)" in it.headline
    assert "no promise was given" in it.headline
    assert "none of them ever behind" in found(group(most=0), limits={}).headline


def test_what_was_never_measured_is_unknown_and_kept_no_promise():
    it = found(group(measured=0, most=None, most_at=None))
    assert it.verdict is Verdict.UNKNOWN
    assert "nothing was measured" in it.headline


def test_a_promise_of_an_age_that_was_never_known_is_not_kept():
    it = found(group(aged=0), limits={"head_age": 300.0})
    assert it.verdict is Verdict.UNKNOWN
    assert it.headline == (
        "Of 1 group it could not be judged over 1h: none waiting for more than 5m."
    )


def test_who_was_never_measured_is_not_counted_among_those_that_kept_a_promise():
    it = found(group(), group("billing", measured=0, aged=0))
    assert it.verdict is Verdict.OK
    assert it.headline == (
        "Kept over 1h, by 1 group: at most 100 messages behind. 1 group could not be judged."
    )


def test_a_part_that_broke_a_promise_breaks_it_where_the_whole_was_never_measured():
    it = found(group(measured=0, aged=0, incidents=1))
    assert it.verdict is Verdict.CRITICAL
    assert "1 of 1 group broke a promise" in it.headline


def test_places_are_written_as_a_reader_likes_them():
    assert where({"group": "shipping", "queue_id": -1}) == "shipping"
    queue = {"group": "shipping", "topic": "orders", "broker": "a", "queue_id": 0}
    assert where(queue) == "shipping · orders a/0"


def test_times_are_iso_8601_in_the_document_and_groups_have_no_queue():
    gap = {"level": "group", "group": "g", "topic": "", "broker": "", "queue_id": -1,
           "begin": 0.0, "end": HOUR}  # fmt: skip
    figures = replace(found(group()), gaps=(gap,)).figures()
    assert figures["longest_gaps"] == [
        {"level": "group", "group": "g", "begin": "1970-01-01T00:00:00.000Z",
         "end": "1970-01-01T01:00:00.000Z"},
    ]  # fmt: skip
    assert figures["groups"][0]["most_at"] == "1970-01-01T00:01:00.000Z"


def test_promises_in_words():
    assert promises({"backlog": 1}) == "at most 1 message behind"
    assert promises({}) == ""


def test_settings_that_cannot_be_meant_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="slo_messages must be 0 or more"):
        BacklogSettings(tmp_path, slo_messages=-1)
    with pytest.raises(ConfigError, match="ends before it begins"):
        BacklogSettings(tmp_path, since=5.0, until=5.0)
    assert BacklogSettings(tmp_path, slo_messages=0).limits == {"backlog": 0}


def test_what_was_asked_is_told_with_times_that_can_be_asked_again(tmp_path):
    told = BacklogSettings(tmp_path, since=0.0, slo_messages=0).options()
    assert (told["since"], told["slo_messages"]) == ("1970-01-01T00:00:00.000Z", 0)
    assert told["directory"] == str(tmp_path)
    assert "until" not in told
