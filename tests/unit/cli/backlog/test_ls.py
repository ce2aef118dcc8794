"""`orderly backlog ls`: the same lines in every format, and exit 3 for what was not read."""

import csv
import io
import json

import pytest
import yaml

from orderly.cli.root import run
from orderly.monitoring.backlog.reading import DeadLetters, Head
from orderly.monitoring.backlog.states import QueueState
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, group, row, snapshot

HEAD = Head(93, "=cmd|' /C calc'!A0\x1b[31m", "", AT - 60, AT - 61, 0, 10, attempts=4)


@pytest.fixture
def cluster(surveyed):
    surveyed.found = snapshot(
        group("billing", [row(group="billing", topic="paid", backlog=1234)], members=()),
        group(
            "shipping",
            [
                row(QueueState.SUSPENDED, head=HEAD),
                row(queue_id=1),
                row(QueueState.NEW, queue_id=2),
            ],
            members=("a", "b"),
            dead=DeadLetters(2, None, 2),
        ),
    )
    return surveyed


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", [["backlog"], ["backlog", "ls"]])
def test_ls_is_the_default_and_a_line_is_a_topic(capsys, command):
    assert run(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        "GROUP     TOPIC   STATE  BACKLOG  AGE     ETA  PARKED  DEAD  QUEUES  MEMBERS",
        "billing   paid    OK        1234   1m  20m34s       -     -       1        0",
        "shipping  orders  NEW          7   1m      7s       -     2       3        2",
    ]


@pytest.mark.usefixtures("cluster")
def test_a_line_of_names_fits_a_terminal(capsys):
    for level in ("group", "topic", "queue"):
        run(["backlog", "--by", level])
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.usefixtures("cluster")
def test_queue_by_queue(capsys):
    assert run(["backlog", "--by", "queue", "-o", "wide", "--raw"]) == 0
    heading, _, suspended, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["GROUP", "TOPIC", "BROKER", "QUEUE"]
    assert suspended.split()[:8] == [
        "shipping", "orders", "broker-a", "0", "SUSPENDED", "0", "93", "100",
    ]  # fmt: skip
    assert "\x1b" not in suspended


@pytest.mark.usefixtures("cluster")
def test_csv_is_read_back_and_formulas_are_quoted(capsys):
    assert run(["backlog", "--by", "queue", "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [found["backlog"] for found in rows] == ["1234", "7", "0", ""]
    assert rows[1]["key"] == "'=cmd|' /C calc'!A0"
    assert rows[1]["attempts"] == "4"


@pytest.mark.usefixtures("cluster")
def test_json_and_yaml_tell_all_down_to_queues(capsys):
    assert run(["backlog", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "orderly.backlog/v2"
    assert [it["group"] for it in found["groups"]] == ["billing", "shipping"]
    queues = found["groups"][1]["topics"][0]["queues"]
    assert [queue["backlog"] for queue in queues] == [7, 0, None]
    assert queues[0]["head"]["key"] == HEAD.key
    run(["backlog", "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == found


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("level", "topics", "queues"), [("group", 0, 0), ("topic", 2, 0)])
def test_json_goes_down_as_far_as_it_is_told(capsys, level, topics, queues):
    run(["backlog", "-o", "json", "--by", level])
    text = capsys.readouterr().out
    assert (text.count('"topic":'), text.count('"queue":')) == (topics, queues)


@pytest.mark.usefixtures("cluster")
def test_every_format_has_the_same_lines(capsys):
    for output in ("table", "wide", "csv", "json", "yaml", "prometheus"):
        run(["backlog", "--only-bad", "-o", output])
        out = capsys.readouterr().out
        assert ("shipping" in out, "billing" in out) == (True, False), output


@pytest.mark.usefixtures("cluster")
def test_keys_can_be_hashed_in_every_format(surveyed, capsys):
    parked = (ParkedKey("secret", 1, 1, 2),)
    head = Head(93, "secret", "", AT, AT, 0, 1)
    surveyed.found = snapshot(
        group("shipping", [row(QueueState.SUSPENDED, parked=parked, head=head)])
    )
    for args in (
        ["backlog", "--by", "queue", "-o", "wide"],
        ["backlog", "-o", "json"],
        ["backlog", "--by", "queue", "-o", "csv"],
        ["backlog", "describe", "shipping"],
        ["backlog", "explain"],
    ):
        assert run(args) == 0
        assert "secret" in capsys.readouterr().out
        assert run([*args, "--redact-keys", "hash"]) == 0
        assert "secret" not in capsys.readouterr().out


@pytest.mark.usefixtures("cluster")
def test_the_settings_can_ask_for_it_once_for_all(surveyed, capsys, monkeypatch):
    head = Head(93, "secret", "", AT, AT, 0, 1)
    surveyed.found = snapshot(group("shipping", [row(QueueState.BLOCKED, head=head)]))
    for wanted, seen in (("", True), ("hash", False)):
        monkeypatch.setenv("ORDERLY_REDACT_KEYS", wanted)
        run(["backlog", "describe", "shipping"])
        assert ("secret" in capsys.readouterr().out) is seen
    monkeypatch.setenv("ORDERLY_REDACT_KEYS", "sha1")
    assert run(["backlog", "describe", "shipping"]) == 3
    assert "redact_keys of environment must be 'hash'" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_colours_come_only_where_they_are_wanted(capsys, monkeypatch):
    run(["backlog"])
    assert "\x1b" not in capsys.readouterr().out
    run(["backlog", "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run(["backlog"])
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert "1,234" in out
    monkeypatch.setenv("NO_COLOR", "1")
    run(["backlog"])
    assert "\x1b" not in capsys.readouterr().out


def test_what_could_not_be_read_is_exit_3_and_the_rest_is_shown(surveyed, capsys):
    surveyed.found = snapshot(row(), row(QueueState.UNKNOWN, queue_id=1))
    assert run(["backlog"]) == 3
    assert "UNKNOWN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "args", "said"),
    [
        (snapshot(), [], "no group has committed an offset"),
        (snapshot(row()), ["--only-bad"], "the group is in order"),
        (snapshot(row(), row(group="b")), ["--only-bad"], "all 2 groups are in order"),
        (snapshot(), ["-g", "ship*", "-t", "ord*"], "no group fits ship*, ord*\n"),
    ],
)
def test_no_line_is_told_why(surveyed, capsys, found, args, said):
    surveyed.found = found
    assert run(["backlog", *args]) == 0
    assert said in capsys.readouterr().err


def test_what_is_chosen_reaches_the_survey(surveyed):
    surveyed.found = snapshot(row())
    run(["backlog", "-g", "ship*", "-g", "bill*", "-t", "ord*"])
    selection = surveyed.asked[0][0]
    assert (selection.groups, selection.topics) == (("ship*", "bill*"), ("ord*",))
