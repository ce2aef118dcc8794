"""Names, keys, causes and brokers' errors that want to act: in no command and no format they do."""

import csv
import io
import json

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from orderly.cli.root import run
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.states import QueueState
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, group, row, snapshot
from tests.unit.cli.golden.backlog import world

EVIL = "=cmd|'/c x'!A0\x1b[2J\x9b31m\u202e\ud800</td><script>x</script>\"}\\\nup 1 #"
FORMATS = ("table", "wide", "json", "yaml", "csv", "prometheus", "nagios")
COMMANDS = [
    *(("backlog", "list", "--by", by, "-o", form) for by in ("group", "queue") for form in FORMATS),
    *(("backlog", "describe", EVIL, "-o", form) for form in ("table", "json", "yaml")),
    *(("backlog", "explain", "-o", form) for form in ("table", "json", "yaml")),
    *(("backlog", "check", "*", "-o", form) for form in ("nagios", "json")),
]
READ = {"json": json.loads, "yaml": yaml.safe_load}


def hostile():
    head = Head(93, EVIL, EVIL, AT, AT, 0, 9, attempts=4, fingerprint=EVIL)
    parked = (ParkedKey(EVIL, 1, 2, 3),)
    rows = [
        row(QueueState.BLOCKED, EVIL, EVIL, EVIL, 0, owner=EVIL, cause=EVIL, head=head, backlog=5),
        row(QueueState.SUSPENDED, EVIL, EVIL, EVIL, 1, owner=EVIL, cause=EVIL, parked=parked),
    ]
    one = group(EVIL, rows, findings=(EVIL,), members=(EVIL,), dead=DeadLetters(1, AT, 1))
    return snapshot(one, brokers={EVIL: BrokerReading(EVIL, error=EVIL)}, cluster=EVIL)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_prints_nothing_that_acts(capsys, command):
    with world(hostile()):
        run(command)
    out, err = capsys.readouterr()
    for text in (out, err):
        assert [c for c in text if not c.isprintable() and c != "\n"] == []
        assert not any(line.startswith("up 1") for line in text.splitlines())
    assert out, err
    form = command[-1]
    if form in READ:
        assert READ[form](out)
    if form == "prometheus":
        assert "up" not in {family.name for family in text_string_to_metric_families(out)}
    if form == "csv":
        cells = [cell for line in csv.reader(io.StringIO(out)) for cell in line]
        assert [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t")] == []
