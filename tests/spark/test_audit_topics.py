"""An audit of a real topic finds what was planted in it, all of it and no more."""

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain

import pytest

from orderly import Message
from orderly.cli.demo.flights import load_events
from orderly.foreign_text import hidden
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.protocol.properties import ATTEMPT, UNIQ_KEY, mark
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.run import redacted_rows, run
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.output import Output
from tests.support.messages import send_raw
from tests.support.waiting import eventually, patient_client, patient_producer

# Flights in a topic: in order, or with a known number of things wrong. The key is the aircraft.


NUMBER = "n"  # the property with the event's number, 1, 2, 3 … for each aircraft


@dataclass(frozen=True)
class Event:
    """What is sent; `queue`: None: by the library's selector."""

    key: str | None
    number: int | None
    body: bytes
    queue: int | None = None


def flights(limit):
    """Real departures and arrivals in the order in which they happened, numbered by aircraft."""
    events, _ = load_events(limit)
    seen = defaultdict(int)
    numbered = []
    for place, event in enumerate(events):
        seen[event.tail] += 1
        numbered.append(Event(event.tail, seen[event.tail], event.body(place)))
    return numbered


def send(namesrv, topic, *rounds):
    """Send events in order, by the library's producer; a round waits for the one before."""
    with patient_producer(namesrv) as producer:
        for events in rounds:
            for future in [_submit(producer, topic, event) for event in events]:
                future.result(60)


def _submit(producer, topic, event):
    numbered = {} if event.number is None else {NUMBER: str(event.number)}
    message = Message(topic, event.body, sharding_key=event.key, properties=numbered)
    if event.queue is None:
        return producer.submit(message)
    return producer.submit(message, selector=lambda queues, _, number: queues[number],
                           arg=event.queue)  # fmt: skip


class Planted:
    """Flights with faults: `rounds` to send, and `wrong` = {(kind, key, number, distance)}.

    Each of the busiest aircraft has one kind of fault; `moved` went to another queue in order,
    `mixed` were in two queues at once.
    """

    def __init__(self, limit):
        self.by_key = defaultdict(list)
        for event in flights(limit):
            self.by_key[event.key].append(event)
        busy = iter(sorted(self.by_key, key=lambda key: (-len(self.by_key[key]), key)))
        self.wrong = set()
        self.late = []  # events of the second round
        self.alternating = []  # of one aircraft each, one queue after the other
        take = lambda number: [next(busy) for _ in range(number)]  # noqa: E731
        for key in take(5):
            self._swap(key)
        for key, missing in zip(take(3), (1, 1, 3), strict=True):
            self._leave_out(key, missing)
        for key in take(2):
            self._send_late(key)
        for key in take(4):
            self._repeat(key, after=6)
        for key in take(3):
            self._repeat(key, after=9)
        self.moved = take(3)
        self.across = take(2)
        self.mixed = take(2)
        for key in self.moved:
            self._move(key, 6)
        for key in self.across:
            self._move_out_of_order(key)
        for key in self.mixed:
            self._alternate(key)
        kept = set(map(id, chain(self.late, self.alternating)))
        mine = (event for events in self.by_key.values() for event in events)
        first = [event for event in mine if id(event) not in kept]
        keyless = [Event(None, 1, b"x")] * 7
        unnumbered = [Event("UNNUMBERED", None, b"x")] * 3
        self.rounds = [first + keyless + unnumbered, self.late, *([e] for e in self.alternating)]
        self.messages = sum(map(len, self.rounds))

    def _swap(self, key):
        """Number 4 before 3."""
        mine = self.by_key[key]
        mine[2], mine[3] = mine[3], mine[2]
        self.wrong.add(("inversion", key, 3, 1))

    def _leave_out(self, key, missing):
        """No 5, or no 5 to 7."""
        del self.by_key[key][4 : 4 + missing]
        self.wrong.add(("gap", key, 5 + missing, missing))

    def _send_late(self, key):
        """4 only after 9: no gap."""
        mine = self.by_key[key]
        mine.insert(8, mine.pop(3))
        self.wrong.add(("inversion", key, 4, 5))

    def _repeat(self, key, after):
        """6 once more."""
        mine = self.by_key[key]
        mine.insert(after, replace(mine[5]))
        self.wrong.add(("repeat", key, 6, None))

    def _move(self, key, at):
        """From a place on in another queue, later."""
        mine = self.by_key[key] = [replace(event, queue=0) for event in self.by_key[key]]
        mine[at:] = [replace(event, queue=1) for event in mine[at:]]
        self.late += mine[at:]

    def _move_out_of_order(self, key):
        """1 to 6 and 8 in one queue, then 7, 9, 10 … in the other."""
        mine = self.by_key[key]
        mine[6], mine[7] = mine[7], mine[6]
        self._move(key, 7)
        self.wrong.add(("across", key, 7, 1))

    def _alternate(self, key):
        """One queue after the other, each message after the one before."""
        mine = [replace(event, queue=place % 2) for place, event in enumerate(self.by_key[key])]
        self.by_key[key] = mine
        self.alternating += mine


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
    assert result.headline == "Not judged: no messages were read."


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


def test_repeated_sends_are_told_from_other_repeats(spark, orderly_namesrv, orderly_topic):
    """A batch of a1, a2, a3 is stored, and once more: with one born time, and marks or not."""
    topic, born = orderly_topic(2), int(time.time() * 1000)

    def store(number, attempt=1, queue_id=0, born=born, key="a"):
        marks = {ATTEMPT: mark(attempt, born)} if attempt > 1 else {}
        own = {UNIQ_KEY: f"id-{key}-{number}", NUMBER: str(number)}
        queue = MessageQueue(topic, "broker-a", queue_id)
        send_raw(client, queue, b"x", key=key, sys_flag=0, born=born, **own, **marks)

    with patient_client(orderly_namesrv) as client:
        for attempt in (1, 2):
            for number in (1, 2, 3):
                store(number, attempt)
        store(2, 1, born=born + 1)  # by a program that had received it
        for number, attempt in ((1, 2), (2, 1), (1, 1)):  # the first attempt comes late
            store(number, attempt, key="late")
        store(1, key="elsewhere")
        store(1, 2, queue_id=1, key="elsewhere")
        store(1, 2, key="alone")
    asked = settings(orderly_namesrv, topic)
    all_stored(asked, 13)
    for found in (run(spark, asked), run(spark, AuditSettings(asked.source))):
        lines = found.tables.evidence.collect()
        assert {row.kind for row in lines} == {"repeat"}
        sends = Counter((row.key, row.repeated_send) for row in lines)
        assert sends == {
            ("a", True): 3,
            ("a", False): 1,
            ("late", True): 1,
            ("elsewhere", False): 1,
        }
        assert (found.figures.repeats, found.figures.resent) == (6, 6)
        assert found.figures.repeated_sends == 4
        assert found.verdict is Verdict.WARNING
        told_by_key = {row.key: row.repeated_sends for row in found.tables.keys.collect()}
        assert told_by_key == {"a": 3, "late": 1, "elsewhere": 0, "alone": 0}
        assert "2 repeats and 4 repeated sends" in found.headline


def test_hashes_in_tables_are_those_of_redacted_keys_everywhere(spark):
    keys = ["whale", "", "ключ", "7", "a b", None]
    rows = spark.createDataFrame([(key,) for key in keys], "key string")
    found = redacted_rows(rows, "key", AuditSettings({}, redact_keys=True)).collect()
    assert [row.key for row in found] == [key if key is None else hidden(key) for key in keys]
