"""Every command on a cluster whose names want to act, and on one whose errors do: none acts.

Names of brokers, of the cluster, of topics, groups and members, and the remarks of refusals are a
server's to choose. Keys and bodies are a sender's, and tried in tests/behaviour.
"""

import ast
import contextlib
import csv
import io
import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import orderly.cli
from orderly import Ack, Client, ClientConfig, ConsumerConfig, Message, OrderlyConsumer, Park
from orderly.cli.root import run
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.groups import GroupConfig
from orderly.protocol.heartbeat import ConsumerData, Heartbeat, Subscription, encode_heartbeat
from orderly.testing import FakeBroker
from orderly.testing.fake.faults import Fail, Fault
from tests.support.command_tree import leaves
from tests.support.waiting import eventually, patient_producer

EVIL = (
    "=cmd|'/c x'!A0\x1b[2J\x9b31m\u202e</td><script>x</script>\"}\\\nup 1 #$(touch hit)`touch hit`"
)
QUIET = {  # not asked here: they ask no server, run a program of the user's, or need Spark
    "demo", "run", "broker fake", "broker logs", "broker start", "broker status", "broker stop",
    "context list", "context show", "context use", "completion", "exporter", "bench",
    "spark audit", "spark replay", "spark bundle",
}  # fmt: skip
LINES = """
topic create made --queues 2
topic create orders --for-group shipping --dry-run
topic delete orders --dry-run -o FORM
topic delete orders --dry-run
topic grow orders --queues 16 --dry-run --observe 0s
topic grow orders --queues 16 --dry-run --observe 0s -o json
topic list --all -o FORM
topic show orders -o FORM
topic show EVIL
send orders x -k key
backlog list -o FORM
backlog list --by queue -o FORM
backlog list EVIL
backlog describe * -o FORM
backlog watch --for 1s -o csv
backlog check * -o FORM
backlog check EVIL
backlog explain -o FORM
backlog report --out report.html
locks shipping -o FORM
tail orders --limit 1 -o FORM
doctor shipping -t orders -o FORM
parked add shipping healthy --yes
parked drop shipping bad --yes
parked export shipping --out parked.jsonl
parked keepalive shipping
parked list shipping -o FORM
parked list EVIL
parked release shipping bad --dry-run
parked show shipping bad -o FORM
dlq list shipping -o FORM
dlq list EVIL
dlq replay shipping --yes
offsets reset shipping orders --to-earliest --dry-run -o FORM
offsets show shipping -o FORM
group delete shipping --dry-run -o FORM
group list -o FORM
skew orders
skew orders -o FORM
placement orders
placement orders -o FORM
"""
FORMS = ("table", "wide", "json", "yaml", "csv", "prometheus", "nagios")
READ = {"json": json.loads, "yaml": yaml.safe_load}


def command_lines():
    """Each line, once for each format that its command has."""
    commands = leaves()
    for line in filter(None, LINES.splitlines()):
        words = [EVIL if word == "EVIL" else word for word in shlex.split(line)]
        name = max((each for each in commands if line.startswith(each)), key=len)
        (output,) = [p for p in commands[name].params if p.name == "output"] or [None]
        forms = [form for form in FORMS if output is not None and form in output.type.choices]
        for form in forms if "FORM" in words else [None]:
            yield name, [form if word == "FORM" else word for word in words]


CASES = [*command_lines()]


@pytest.fixture(scope="module")
def cluster():
    """A broker, a cluster, a topic, a group and a member of that name, beside harmless ones."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr("orderly.testing.fake.cluster.CLUSTER", EVIL)
        fake = stack.enter_context(FakeBroker(brokers=(EVIL,)))
        fake.create_topic("orders", 2)
        with fake._running().changing() as running:
            running.create_topic(EVIL, 1)
            state = running.brokers[EVIL]
            state.groups.put(GroupConfig(name=EVIL))
            state.offsets.commit(EVIL, "orders", 0, 0)
        producer = stack.enter_context(patient_producer(fake.namesrv))
        for key in ("bad", "healthy"):
            producer.send(Message("orders", b"1", sharding_key=key))
        client = stack.enter_context(Client(ClientConfig(namesrv=fake.namesrv)))
        beat = Heartbeat(EVIL, consumers=(
            ConsumerData("shipping", (Subscription("orders"),)),
            ConsumerData(EVIL, (Subscription(EVIL),)),
        ))  # fmt: skip
        command = request(RequestCode.HEART_BEAT, body=encode_heartbeat(beat))
        member = stack.enter_context(
            OrderlyConsumer(
                "shipping",
                lambda messages, _: Park(EVIL) if messages[0].sharding_key == "bad" else Ack(),
                namesrv=fake.namesrv,
                config=ConsumerConfig(order="key", consume_from="first", rebalance_interval=5),
            ).subscribe("orders")
        )
        eventually(lambda: any(member.parked().values()), within=60)
        client.connections.get(fake.broker_address).call(command, 30)
        yield fake


@pytest.fixture
def call(cluster, monkeypatch, capsys, tmp_path):
    """Run a command line: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORDERLY_NAMESRV", cluster.namesrv)
    monkeypatch.setenv("ORDERLY_REQUEST_TIMEOUT", "2")
    monkeypatch.setattr("orderly.cli.parked.PATIENCE", 5.0, raising=False)

    def call(words):
        monkeypatch.setattr(
            sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b""), isatty=lambda: False)
        )
        code = run(words)
        return (code, *capsys.readouterr())

    return call


def acts(out, err, form):
    """What of an output would have an effect."""
    found = []
    for text in (out, err):
        found += [c for c in text if not c.isprintable() and c != "\n"]
        found += [line for line in text.splitlines() if line.startswith("up 1")]
    if "this is a bug" in err or "Traceback" in err:
        found.append("a bug")
    if form in READ and out:
        READ[form](out)
    if form == "csv":
        cells = [cell for line in csv.reader(io.StringIO(out)) for cell in line]
        found += [cell for cell in cells if cell[:1] in {"=", "+", "@", "\t"}]
    return found


def test_every_command_that_asks_a_server_is_tried():
    assert {name for name, _ in CASES} == set(leaves()) - QUIET


@pytest.mark.parametrize(("name", "words"), CASES, ids=[" ".join(words) for _, words in CASES])
def test_no_name_of_a_server_acts(call, name, words):
    code, out, err = call(words)
    assert acts(out, err, words[-1]) == [], (code, name)
    assert out or err


@pytest.mark.parametrize(("name", "words"), CASES, ids=[" ".join(words) for _, words in CASES])
def test_no_remark_of_a_server_acts(call, cluster, name, words):
    cluster.script(*[Fault(code, Fail(1, EVIL), times=None) for code in RequestCode])
    try:
        code, out, err = call(words)
    finally:
        cluster.script()
    assert acts(out, err, words[-1]) == [], (code, name)
    assert out or err


PRINT_THEMSELVES = {  # and make all that others chose printable piece by piece: tables, pages, logs
    "terminal.py", "output.py", "root.py", "completion.py", "tail.py", "broker.py", "skew.py",
    "placement.py", "backlog/describe.py", "backlog/explain.py", "backlog/watch.py",
    "backlog/report.py",
}  # fmt: skip


def test_lines_are_printed_in_one_place():
    """`say` and `tell` make a line printable: whoever prints past them must be listed here."""
    folder = Path(orderly.cli.__file__).parent
    found = set()
    for path in folder.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "func"))
        printed = {ast.unparse(call.func) for call in calls}
        if printed & {"click.echo", "click.secho", "click.confirm", "click.prompt", "print"}:
            found.add(str(path.relative_to(folder)))
    assert {each for each in found if not each.startswith("demo/")} == PRINT_THEMSELVES
