"""What `-o json` writes: each command runs, on the fake broker or on made data, and is asked.

Of each document its fields and their JSON types. That a field is null tells nothing: whatever is
not known is null, and what is known depends on the moment.
"""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click

from orderly import (
    Ack,
    ConsumerConfig,
    DeadLetter,
    Fail,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    Suspend,
)
from orderly.cli.backlog import watch
from orderly.cli.root import run
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.collecting import survey
from orderly.ordering.context import Failure
from orderly.protocol.parked_key import ParkedKey
from orderly.testing import FakeBroker, daemon_state
from tests.support.command_tree import leaves, options
from tests.support.snapshots import AT, group, queues_of, row, snapshot, topic_status
from tests.support.waiting import eventually
from tests.unit.cli.demo import test_story

WITHIN = 60  # seconds; a slow machine under load
MAPS = {  # fields whose names are data
    "endingOffsets", "options", "startingOffsets", "versions",
    "attributes", "failed_messages", "failed_requests", "per_queue", "producers", "properties",
    "states", "topics", "where_time_goes",
}  # fmt: skip


def commands() -> set[str]:
    """Every command that has `-o json`, those of Spark too."""
    return {
        words
        for words, command in leaves().items()
        for option in options(command)
        if isinstance(option.type, click.Choice) and "json" in option.type.choices
    }


def facts() -> Iterator[str]:
    """The lines of the golden file: "command | .path: type"."""
    return _told(documents())


def facts_of_spark() -> Iterator[str]:
    """Those of the jobs, which need PySpark: made from results, without a session."""
    from tests.frozen.jobs import job_documents  # noqa: PLC0415

    return _told(job_documents())


def _told(documents: dict[str, list[Any]]) -> Iterator[str]:
    for command, found in documents.items():
        types: dict[str, set[str]] = {}
        for document in found:
            for path, kind in _shape("", document):
                types.setdefault(path, set()).add(kind)
        for path, kinds in types.items():
            told = sorted(kinds - {"null"}) or ["null"]
            yield f"{command} | {path or 'all'}: {' or '.join(told)}"
        for schema in sorted({each["schema"] for each in found if "schema" in each}):
            yield f"{command} | schema {schema}"


def _shape(path: str, value: Any) -> Iterator[tuple[str, str]]:
    yield path, _KINDS[type(value)]
    if isinstance(value, list):
        for each in value:
            yield from _shape(f"{path}[]", each)
    elif isinstance(value, dict):
        named = path.rpartition(".")[2] in MAPS
        for name, each in value.items():
            yield from _shape(f"{path}.{'<name>' if named else name}", each)


_KINDS = {
    dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number",
    type(None): "null",
}  # fmt: skip


def documents() -> dict[str, list[Any]]:
    """What each command wrote."""
    ask = _Asking()
    with _no_settings_of_mine() as folder, FakeBroker() as fake:
        _of_backlogs(ask)
        _of_local_things(ask, folder)
        os.environ["ORDERLY_NAMESRV"] = fake.namesrv
        _of_topics(ask, fake)
        _of_a_group(ask, fake)
        _of_measurements(ask, fake)
    return ask.found


class _Asking:
    """Runs command lines; `found` is what they wrote, by the command's words."""

    def __init__(self) -> None:
        self.found: dict[str, list[Any]] = {}

    def __call__(self, command: str, *arguments: str) -> Any:
        """Run it once, and return what it wrote last."""
        written, said = _written([*command.split(), *arguments, "-o", "json"])
        assert written, f"orderly {command} {' '.join(arguments)} wrote no JSON: {said}"
        self.found.setdefault(command, []).extend(written)
        return written[-1]

    def until(self, condition: Callable[[Any], Any], command: str, *arguments: str) -> Any:
        """Run it again and again; what it wrote before the condition was met does not count."""
        words = [*command.split(), *arguments, "-o", "json"]

        def met() -> Any:
            written, _ = _written(words)
            return written[-1] if written and condition(written[-1]) else None

        written = eventually(met, within=WITHIN)
        self.found.setdefault(command, []).append(written)
        return written


def _done(*arguments: str) -> None:
    with redirect_stdout(io.StringIO()):
        assert run(arguments) == 0


def _written(arguments: list[str]) -> tuple[list[Any], str]:
    """The documents on stdout, one or one a line, and what is on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        run(arguments)
    text, read, at = out.getvalue(), list[Any](), 0
    while at < len(text):
        document, at = json.JSONDecoder().raw_decode(text, at)
        read.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return read, err.getvalue()


_SETTINGS = """
context = "a"
[contexts.a]
namesrv = "a:1"
[contexts.b]
namespace = "n"
"""


@contextmanager
def _no_settings_of_mine() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        file = Path(name) / "config.toml"
        file.write_text(_SETTINGS)
        with mock.patch.dict(os.environ):
            for each in [it for it in os.environ if it.startswith(("ORDERLY_", "NAMESRV_"))]:
                del os.environ[each]
            os.environ |= {"ORDERLY_CONFIG": str(file), "ORDERLY_CACHE": name}
            yield Path(name)


# --- on made data


_HEAD = Head(93, "order-8", "paid", AT - 60, AT - 61, 0, 10, 4, "ValueError: x")
_ROWS = [
    row(
        QueueState.SUSPENDED,
        parked=(ParkedKey("order-7", 12, 3, 14),),
        parked_age=3600.0,
        head=_HEAD,
    ),
    *(row(state, queue_id=number) for number, state in enumerate(QueueState, 1)),
]


def _made() -> Any:
    """A snapshot in which nothing is unknown, and every state is there."""
    found = group(
        "shipping",
        _ROWS,
        members=("c1", "c2"),
        idle=("c2",),
        order="key",
        model="CLUSTERING",
        dead=DeadLetters(3, AT - 120, 3),
        dead_rate=0.1,
        findings=("subscriptions differ",),
    )
    (queue,) = queues_of("orders", 1)
    found.topics["orders"] = topic_status(_ROWS, QueueSkew(2.0, 0.5, 0.3, 0.2, queue))
    brokers = {
        "broker-a": BrokerReading(
            "broker-a", requests=5, seconds=0.1, clock_offset=0.1, retention=9.0
        ),
        "broker-b": BrokerReading("broker-b", error="no reply"),
    }
    return snapshot(found, brokers=brokers)


def _of_backlogs(ask: _Asking) -> None:
    made = _made()
    with mock.patch.object(survey, "survey", return_value=made):
        namesrv = ("--namesrv", "127.0.0.1:1")
        for by in ("group", "topic", "queue"):
            ask("backlog list", "--by", by, *namesrv)
        ask("backlog describe", "shipping", *namesrv)
        ask("backlog explain", *namesrv)
        ask("backlog check", "shipping", "--warn", "1", "--crit", "2", *namesrv)
    look = mock.Mock(side_effect=[made, KeyboardInterrupt])
    with (
        mock.patch.object(watch, "_observer", return_value=SimpleNamespace(look=look)),
        mock.patch.object(watch, "Backlog", return_value=SimpleNamespace(take=lambda it: it)),
        mock.patch.object(watch.time, "sleep"),
    ):
        ask("backlog watch", *namesrv)


def _of_local_things(ask: _Asking, folder: Path) -> None:
    ask("context list")
    ask("context show")
    ask("broker status")
    runs = daemon_state.Daemon(1, "b", "127.0.0.1:1", "127.0.0.1:2", str(folder), "now", {"a": "b"})
    with mock.patch.object(daemon_state, "find", return_value=runs):
        ask("broker status")
        ask("broker start")
    with (
        mock.patch.object(signal, "sigwait"),
        mock.patch.object(signal, "pthread_sigmask"),
    ):
        ask("broker fake", "orders:2")
    report = test_story.run(test_story.with_planned_failures())
    ask.found["demo"] = [json.loads(json.dumps(report.as_json()))]


# --- on the fake broker


def _of_topics(ask: _Asking, fake: FakeBroker) -> None:
    for topic in ("orders", "bills"):
        fake.create_topic(topic, queues=2)
    ask("topic list")
    _done("topic", "create", "typed", "--queues", "2", "--type", "fifo")
    ask("topic show", "typed")
    ask("send", "bills", "one", "--key", "k", "--tag", "t")
    ask("tail", "bills")
    ask("doctor")


_ANSWERS = {"dead": DeadLetter("no such account"), "stuck": Suspend(30)}
_FAILURE = Failure("no such account", 2, "ValueError at a.py:3", "ValueError: 1", "ValueError: 2")


class _Handler:
    """Answers by the key; of what is replayed the worse one fails."""

    dry_run = True

    def __call__(self, messages: Any, context: Any) -> Any:
        if context.key in ("bad", "worse", "worst") and not context.replayed:
            return context.park(messages[0], _FAILURE.reason, _FAILURE)
        if context.key == "worse":
            return Fail("no such account")
        return _ANSWERS.get(context.key, Ack())


def _of_a_group(ask: _Asking, fake: FakeBroker) -> None:
    config = ConsumerConfig(consume_from="first", order="key", commit_interval=0.1)
    consumer = OrderlyConsumer("shipping", _Handler(), namesrv=fake.namesrv, config=config)
    with OrderlyProducer(namesrv=fake.namesrv) as producer:
        for key in ("good", *_ANSWERS, "bad", "worse", "bad", "worst"):
            producer.send(Message("orders", key.encode(), sharding_key=key, tags="t"))
    told, of_topic = ("shipping",), ("-t", "orders")
    patiently = (*of_topic, "--timeout", str(WITHIN))
    with consumer.subscribe("orders"):
        ask.until(lambda it: sum(e["messages"] for e in it["keys"]) == 4, "parked list", *told)
        ask("parked list", *told, "--group-by", "class")
        ask("parked show", *told, "bad", *of_topic)
        for key in ("stuck", "bad"):  # the one can be parked, the other one is
            ask("parked add", *told, key, "--dry-run", *patiently)
        ask("parked release", *told, "bad", "--dry-run", *patiently)
        for key in ("bad", "worse"):
            ask("parked release", *told, key, *patiently)
        ask("parked drop", *told, "worse", "--yes", *patiently)
        ask.until(lambda it: it["dead_letters"], "dlq list", *told)
        ask("dlq list", *told, "--group-by", "topic")
        ask("dlq replay", *told, "--yes")
        ask.until(lambda it: any(each["owner"] for each in it["queues"]), "locks", *told)
        shown = ("offsets show", *told, *of_topic)
        ask.until(lambda it: all(each["committed"] is not None for each in it["queues"]), *shown)
        ask("offsets reset", *told, "orders", "--to-earliest", "--dry-run")
        ask("topic grow", "orders", "--queues", "4", "--dry-run", "--observe", "0.1s")
        ask("skew", "orders")
        ask("placement", "orders")
        ask.until(lambda it: it["groups"][0]["members"], "group list", *told)
        for of in ("group delete", "shipping"), ("topic delete", "orders"):
            ask(*of, "--dry-run")
    ask.until(lambda it: it["members"] == [], "locks", *told)
    ask("parked release", *told, "--all", "--yes", "--timeout", "1s")


def _of_measurements(ask: _Asking, fake: FakeBroker) -> None:
    fake.create_topic("mixed", queues=2)
    with OrderlyProducer(namesrv=fake.namesrv) as producer:
        for number in range(40):
            key = "hot" if number % 2 else f"k{number}"
            producer.send(
                Message("mixed", b"x", sharding_key=key),
                selector=lambda queues, _, at: queues[at],
                arg=number // 2 % 2,
            )
    ask("skew", "mixed")
    ask("placement", "mixed")
    ask("bench", "-n", "200")
    ask("bench", "--rate", "400", "-n", "200")
