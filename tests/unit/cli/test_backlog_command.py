"""`orderly backlog`: its lines, its JSON and its exit codes, on offsets that the test makes up."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from orderly.cli.backlog import check_line
from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import RequestTimeout
from orderly.model import MessageQueue
from orderly.monitoring import collect as collect_module
from orderly.monitoring.backlog.verdict import QueueBacklog, Thresholds, judge


def row(minimum, committed, maximum, queue_id=0, group="shipping", **more):
    queue = MessageQueue("orders", "broker-a", queue_id)
    return QueueBacklog(group, queue, minimum, committed, maximum, **more)


@pytest.fixture
def measured(monkeypatch):
    """Make `collect` answer with the rows of the returned dict, by group."""
    rows = {}
    member = SimpleNamespace(client_id="10.0.0.1@7#ab")
    admin = SimpleNamespace(
        groups=lambda: tuple(rows),
        consumer_connections=lambda group: SimpleNamespace(connections=[member]),
    )

    @contextmanager
    def client(_):
        yield SimpleNamespace(admin=admin)

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.setattr(collect_module, "collect", lambda _, group, topic: rows.get(group, []))
    return rows


CHECK = ["backlog", "check", "--group", "shipping", "--warn", "10", "--crit", "100"]


@pytest.mark.parametrize(
    ("rows", "code", "line"),
    [
        (
            [row(0, 5, 10), row(0, 10, 10, 1)],
            0,
            (
                "ORDERLY OK - shipping: backlog 5 messages in 2 queues"
                " | 'backlog'=5;10;100;0 'lost'=0;;0;0 'unknown'=0;;;0"
            ),
        ),
        (
            [row(0, 0, 50)],
            1,
            (
                "ORDERLY WARNING - shipping: backlog 50 messages > 10"
                " (most: orders/broker-a/0 with 50)"
                " | 'backlog'=50;10;100;0 'lost'=0;;0;0 'unknown'=0;;;0"
            ),
        ),
        (
            [row(0, 0, 101), row(0, None, 7, 1)],
            2,
            (
                "ORDERLY CRITICAL - shipping: backlog 101 messages > 100;"
                " NEW 1 queue never committed (most: orders/broker-a/0 with 101)"
                " | 'backlog'=101;10;100;0 'lost'=0;;0;0 'unknown'=1;;;0"
            ),
        ),
        (
            [row(0, None, 7)],
            3,
            (
                "ORDERLY UNKNOWN - shipping: NEW 1 queue never committed"
                " | 'backlog'=U;10;100;0 'lost'=0;;0;0 'unknown'=1;;;0"
            ),
        ),
        (
            [row(5, 2, 5)],
            2,
            (
                "ORDERLY CRITICAL - shipping: LOST 3 messages deleted before they were consumed in"
                " 1 queue | 'backlog'=0;10;100;0 'lost'=3;;0;0 'unknown'=0;;;0"
            ),
        ),
        (
            [],
            3,
            (
                "ORDERLY UNKNOWN - shipping: no queue found"
                " | 'backlog'=U;10;100;0 'lost'=0;;0;0 'unknown'=0;;;0"
            ),
        ),
    ],
)
def test_check_is_one_line_and_an_exit_code(measured, capsys, rows, code, line):
    measured["shipping"] = rows
    assert run(CHECK) == code
    out, err = capsys.readouterr()
    assert out == line + "\n"
    assert err == ""


def test_the_topic_is_named_and_one_threshold_is_enough():
    thresholds = Thresholds(crit=7)
    line = check_line("g", "orders", thresholds, judge([row(0, 0, 7)], thresholds))
    assert line.startswith(
        "ORDERLY OK - g/orders: backlog 7 messages in 1 queue | 'backlog'=7;;7;0"
    )


def test_check_in_json(measured, capsys):
    measured["shipping"] = [row(0, 5, 10), row(0, None, 3, 1)]
    assert run([*CHECK, "--output", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found.pop("time").endswith("Z")
    assert found["schema"] == "orderly.backlog/v1"
    assert (found["verdict"], found["exit_code"]) == ("UNKNOWN", 3)
    assert found["totals"] == {"queues": 2, "unknown": 1, "backlog": 5, "lost": 0}
    assert [queue["backlog"] for queue in found["queues"]] == [5, None]
    assert [queue["committed"] for queue in found["queues"]] == [5, None]


@pytest.mark.parametrize("command", [["backlog"], ["backlog", "ls"]])
def test_ls_is_the_default_and_shows_all_groups(measured, capsys, command):
    measured["shipping"] = [row(0, 5, 10), row(0, None, 3, 1)]
    measured["billing"] = [row(4, 1, 10, group="billing")]
    assert run(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        "GROUP     TOPIC   BROKER    QUEUE  MIN  COMMITTED  MAX  BACKLOG  STATE",
        "billing   orders  broker-a      0    4          1   10        6  LOST 3",
        "shipping  orders  broker-a      0    0          5   10        5  OK",
        "shipping  orders  broker-a      1    0          -    3        -  NEW",
        "",
        "GROUP     TOPIC   QUEUES  UNKNOWN  BACKLOG  LOST  CLIENTS ONLINE",
        "billing   orders       1        0        6     3               1",
        "shipping  orders       2        1        5     0               1",
    ]


def test_ls_in_json(measured, capsys):
    measured["shipping"] = [row(0, 5, 10)]
    assert run(["backlog", "--group", "shipping", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"] == [
        {
            "group": "shipping",
            "clients": ["10.0.0.1@7#ab"],
            "totals": {"queues": 1, "unknown": 0, "backlog": 5, "lost": 0},
            "queues": [
                {
                    "topic": "orders",
                    "broker": "broker-a",
                    "queue": 0,
                    "min": 0,
                    "committed": 5,
                    "max": 10,
                    "backlog": 5,
                    "lost": 0,
                    "state": "OK",
                }
            ],
        }
    ]


def test_ls_with_a_queue_that_was_not_read_shows_the_rest_and_exits_3(measured, capsys):
    measured["shipping"] = [row(0, 5, 10), row(None, None, None, 1, readable=False)]
    assert run(["backlog", "--group", "shipping"]) == 3
    assert "UNKNOWN" in capsys.readouterr().out


def test_ls_of_a_group_without_a_trace_is_an_error(measured, capsys):
    assert run(["backlog", "--group", "nobody"]) == 3
    assert "nobody has no committed offset" in capsys.readouterr().err


def test_without_any_group_it_says_so(measured, capsys):
    assert run(["backlog"]) == 0
    assert "no group has committed an offset" in capsys.readouterr().err


def test_members_that_cannot_be_asked_are_not_known(measured, capsys, monkeypatch):
    def silent(group):
        raise RequestTimeout("no reply")

    measured["shipping"] = [row(0, 5, 10)]
    with Settings().client() as client:
        monkeypatch.setattr(client.admin, "consumer_connections", silent)
    assert run(["backlog", "--group", "shipping"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "-"


def retry_row(minimum, committed, maximum, queue_id=0):
    queue = MessageQueue("%RETRY%shipping", "broker-a", queue_id)
    return QueueBacklog("shipping", queue, minimum, committed, maximum)


def test_a_retry_topic_is_shown_only_with_a_backlog_or_on_request(measured, capsys):
    measured["shipping"] = [retry_row(0, 0, 0), retry_row(0, None, 0, 1), row(0, 5, 10)]
    for command in (["backlog"], ["backlog", "-g", "shipping"], ["backlog", "-o", "json"]):
        assert run(command) == 0
        assert "%RETRY%" not in capsys.readouterr().out
    assert run(["backlog", "--all"]) == 0
    assert capsys.readouterr().out.count("%RETRY%shipping") == 3  # two queues and their sum
    measured["shipping"][0] = retry_row(0, 0, 1)
    assert run(["backlog"]) == 0
    assert capsys.readouterr().out.count("%RETRY%shipping") == 2


def test_a_group_without_offsets_is_told_what_to_do_next(measured, capsys):
    assert run(["backlog", "--group", "nobody"]) == 3
    err = capsys.readouterr().err
    assert "--topic" in err
    assert "start its consumer" in err
