"""The demo step by step: broker, topic, send, consume with trouble, park and release, verdict."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from orderly.cli.commands import NOT_MEASURED
from orderly.cli.demo.flights import FlightEvent, RowCounts, load_events
from orderly.cli.demo.screen import Screen
from orderly.cli.demo.traffic import (
    ConsumeLog,
    DemoMembers,
    SendLog,
    Stream,
    send_all,
    sent_live,
    stream_of,
    wait_until,
    watch_backlog,
)
from orderly.cli.demo.trouble import FAILURES, FailingEvent, Parking
from orderly.client import Client
from orderly.config import MIB, ClientConfig, ProducerConfig
from orderly.errors import OrderlyError, SendFailed
from orderly.model import MessageQueue, TopicRoute
from orderly.monitoring.backlog.snapshot import Sums
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import survey
from orderly.monitoring.parked import KeyReport, ParkedMessages
from orderly.producer import OrderlyProducer
from orderly.selectors.layout import layout_of
from orderly.testing.oracle import Delivered, Sent, Verdict, judge

SCHEMA = "orderly.demo/v1"


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The whole run. `backlog` is what the brokers say was left when all consumers had closed."""

    kinds: Counter[str]
    sent: SendLog
    consumed: ConsumeLog
    failing: FailingEvent
    parking: Parking
    backlog: Sums
    verdict: Verdict
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: in order and complete. 1: not so. 3: the backlog at the end is not known."""
        replayed = self.parking.ok and self.parking.settled == self.replayed
        if not self.verdict.ok or self.sent.failed or self.backlog.backlog or not replayed:
            return 1
        return NOT_MEASURED if self.backlog.unknown else 0

    @property
    def out_of_order(self) -> int:
        """Deliveries that came before or after their turn."""
        return self.verdict.disorder + self.verdict.skipped + self.verdict.rewound

    @property
    def planned(self) -> int:
        """Tries of the two messages that failed on purpose, besides the one that succeeded."""
        few = max(0, min(len(self.failing.attempts), len(FAILURES) + 1) - 1)
        tries = [d for d in self.consumed.deliveries if d.number == self.parking.bad.number]
        return few + max(0, min(len(tries) - 1, sum(not d.succeeded for d in tries)))

    @property
    def redelivered(self) -> int:
        """Repeats beyond the planned ones."""
        return self.verdict.duplicates - self.planned

    @property
    def replayed(self) -> int:
        """Parked messages that a handler acknowledged when they were released."""
        done = (d.number for d in self.consumed.deliveries if d.replayed and d.succeeded)
        return len(set(done))

    @property
    def meanwhile(self) -> int:
        """Other aircraft's events that were handled between the parking and the release."""
        parking = self.parking
        if parking.parked_at is None or parking.released_at is None:
            return 0
        return sum(
            d.succeeded
            and d.key != parking.bad.key
            and parking.parked_at <= d.ended <= parking.released_at
            for d in self.consumed.deliveries
        )

    @property
    def parking_text(self) -> str:
        """What became of the bad record's aircraft."""
        return self.parking.story(replayed=self.replayed, meanwhile=self.meanwhile)

    def verdict_text(self) -> str:
        """One line."""
        verdict = self.verdict
        if self.exit_code == 0:
            return (
                f"In order: all {verdict.sent:,} events of {verdict.keys:,} aircraft were handled"
                f" in the order in which they were sent, including the {self.replayed:,} that were"
                " parked; none was lost"
            )
        if self.exit_code == NOT_MEASURED:
            return "Not measured: the brokers did not say what is left in every queue"
        return (
            f"Not in order or not complete: {self.out_of_order:,} out of order,"
            f" {verdict.overlaps:,} two at once, {verdict.lost:,} lost,"
            f" {len(self.sent.failed):,} not sent, {verdict.unknown:,} never sent but delivered,"
            f" {self.backlog.backlog or 0:,} left at the broker; parked: {self.parking_text}"
        )

    def rows(self) -> list[tuple[str, str]]:
        """What and how much, for the final table."""
        verdict, take_over = self.verdict, self.consumed.take_over
        kinds = ", ".join(f"{count:,} {kind}s" for kind, count in sorted(self.kinds.items()))
        rows = [
            ("events", f"{verdict.sent:,} ({kinds}), {verdict.keys:,} keys (aircraft)"),
            ("sent", f"{self.sent.rate:,.0f}/s in {self.sent.seconds:.1f} s"),
            ("consumed", f"{self.consumed.rate:,.0f}/s in {self.consumed.backlog[1]:.1f} s"),
            ("queues", self._queue_text()),
            ("out of order", f"{self.out_of_order:,}"),
            ("two at once", f"{verdict.overlaps:,}"),
            ("lost", f"{verdict.lost:,}"),
            ("duplicates", self._duplicate_text()),
            ("backlog left", "not known" if self.backlog.unknown else f"{self.backlog.backlog:,}"),
            ("failing message", self.failing.story()),
            ("bad record", self.parking_text),
            ("take-over", take_over.story() if take_over else "consumer B never held a queue"),
            ("time in all", f"{self.seconds:.1f} s"),
        ]
        rows += [("not sent", text) for text in list(self.sent.failed.values())[:3]]
        return rows + [("violation", text) for text in verdict.examples]

    def _duplicate_text(self) -> str:
        return (
            f"{self.redelivered:,} delivered again, {self.verdict.log_duplicates:,} stored twice"
            f" (besides the {self.planned} failures made on purpose)"
        )

    def _queue_text(self) -> str:
        counts = self.sent.per_queue()
        fullest, emptiest = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        return (
            f"{len(counts)} used; fullest {fullest} with {counts[fullest]:,},"
            f" emptiest {emptiest} with {counts[emptiest]:,}"
        )

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        verdict, take_over = self.verdict, self.consumed.take_over
        return {
            "schema": SCHEMA,
            "ok": self.exit_code == 0,
            "exit_code": self.exit_code,
            "verdict": self.verdict_text(),
            "events": verdict.sent,
            "keys": verdict.keys,
            "not_sent": len(self.sent.failed),
            "delivered": verdict.delivered,
            "lost": verdict.lost,
            "out_of_order": self.out_of_order,
            "overlaps": verdict.overlaps,
            "unknown": verdict.unknown,
            "duplicates": self.redelivered,
            "planned_retries": self.planned,
            "log_duplicates": verdict.log_duplicates,
            "backlog": None if self.backlog.unknown else self.backlog.backlog,
            "sent_per_second": round(self.sent.rate, 1),
            "consumed_per_second": round(self.consumed.rate, 1),
            "per_queue": self.sent.per_queue(),
            "take_over_seconds": take_over.seconds if take_over else None,
            "failing_message": self.failing.story(),
            "parked": {
                "key": self.parking.bad.key,
                "messages": self.parking.settled,
                "replayed": self.replayed,
                "seconds": self.parking.seconds,
                "others_meanwhile": self.meanwhile,
                "story": self.parking_text,
            },
            "seconds": round(self.seconds, 3),
            "examples": verdict.examples,
        }


def judge_run(
    stream: Stream,
    sent: SendLog,
    consumed: ConsumeLog,
    parking: Parking,
    *,
    backlog: Sums,
    seconds: float,
) -> DemoReport:
    """Hand the records to the oracle, and put everything together.

    The consumers order by key, so each aircraft is judged alone.
    """
    events = stream.events
    records = [
        Sent(events[number].tail, number, (queue, events[number].tail), offset)
        for number, (queue, offset) in sorted(sent.stored.items())
    ]
    delivered = [
        Delivered(d.key, d.number, (d.queue, d.key), d.offset, d.succeeded, d.started, d.ended)
        for d in sorted(consumed.deliveries, key=lambda d: d.started)
    ]
    kinds = Counter(events[number].kind for number in sent.stored)
    verdict = judge(records, delivered)
    return DemoReport(kinds, sent, consumed, stream.failing, parking, backlog, verdict, seconds)


# --- the steps ------------------------------------------------------------------------------------


BROKER_PATIENCE = 10.0  # seconds for an answer: a broker that has just started may be slow
ROUTE_PATIENCE = 10.0  # seconds until the name server must know a topic just created
PARK_PATIENCE = 30.0  # seconds until the bad record must be parked
SHOWN_PARKED = 2.5  # seconds for which the aircraft stays parked, at least
Loading = Future[tuple[list[FlightEvent], RowCounts]]


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What is asked for. `namesrv` empty: start a broker; `limit` None: all events."""

    namesrv: str
    limit: int | None
    queues: int
    seed: int


def run_demo(plan: DemoPlan, out: TextIO) -> DemoReport:
    """Run the whole demo, and show it on `out`.

    Raises:
        OrderlyError: it could not be run, so nothing was measured.
    """
    started, screen = time.monotonic(), Screen(out)
    screen.title("orderly demo: ordered messages on a real RocketMQ broker")
    with ExitStack() as stack:
        # Reading the flights takes seconds, in which the broker can start.
        reader = stack.enter_context(ThreadPoolExecutor(1, "orderly-demo-flights"))
        loading = reader.submit(load_events, plan.limit)
        namesrv = plan.namesrv or start_broker(stack, screen)
        if plan.namesrv:
            screen.step("Broker", "You named a name server, so no broker is started.")
            screen.fact(f"using {namesrv}")
        config = ClientConfig(namesrv=namesrv, request_timeout=BROKER_PATIENCE)
        client = stack.enter_context(closing(Client(config)))
        route = create_topic(client, plan.queues, screen)
        pinned = ProducerConfig(layout=str(layout_of(route)))
        producer = stack.enter_context(OrderlyProducer(client=client, config=pinned))
        stream, sent = _send(producer, route, loading, plan.seed, screen)
        members = stack.enter_context(
            DemoMembers(namesrv, route.topic, route.read_queues(), stream)
        )
        _consume(client, members, sent, screen)
        parking = _park(client, members, producer, sent, screen)
        members.close()
        left = survey(client, Selection((route.topic,), (route.topic,)))
        backlog = left.groups[route.topic].sums
        seconds = time.monotonic() - started
        report = judge_run(stream, sent, members.log, parking, backlog=backlog, seconds=seconds)
    _conclude(report, screen, route.topic if plan.namesrv else None)
    return report


def _send(
    producer: OrderlyProducer, route: TopicRoute, loading: Loading, seed: int, screen: Screen
) -> tuple[Stream, SendLog]:
    screen.step(
        "Send",
        "Every departure and every arrival of 2013's flights from New York is one message, in"
        " order of time. Its sharding key is the aircraft's tail number: the key's hash picks"
        " the queue, so all events of one aircraft are in one queue, in the order they were sent.",
    )
    with screen.busy("reading the flights"):
        events, rows = loading.result()
    screen.fact(rows.text())
    stream = stream_of(events, seed)
    with screen.meter("sending", stream.first_live) as meter:
        sent = send_all(producer, stream.at_once(route.topic), meter)
    if not sent.stored:
        raise SendFailed(f"not one message was stored: {next(iter(sent.failed.values()), '')}")
    aircraft = len({event.tail for event in events[: stream.first_live]})
    screen.fact(
        f"sent {len(sent.stored):,} events of {aircraft:,} aircraft in {sent.seconds:.1f} s"
        f" ({sent.rate:,.0f}/s); the other {len(events) - stream.first_live:,} follow live"
    )
    return stream, sent


def _consume(client: Client, members: DemoMembers, sent: SendLog, screen: Screen) -> None:
    screen.step(
        "Consume, with trouble",
        "Two consumers share a group: the broker's queue lock gives each queue to one of them;"
        " within it, aircraft run side by side. One message fails three times: its aircraft"
        " waits for it, the others go on. Half-way consumer B closes, and A takes over.",
    )
    watch_backlog(members, _ends(client, members.topic, sent), screen)
    count, seconds = members.log.backlog
    screen.fact(f"handled {count:,} in {seconds:.1f} s ({members.log.rate:,.0f}/s)")


def _park(
    client: Client, members: DemoMembers, producer: OrderlyProducer, sent: SendLog, screen: Screen
) -> Parking:
    stream, parked, before = members.stream, ParkedMessages(client, members.topic), members.count()
    screen.step(
        "A bad record, parked and released",
        "Live traffic goes on. One record says 24:00, which the handler cannot read: each try"
        " raises, while other aircraft succeed. So it is the record that is bad, and"
        " @orderly.listener(on_poison='park_key') sets its aircraft aside, in order, instead of"
        " holding up or losing anything. (Here after 3 tries in 1 s; by default 5 in 60 s.)",
    )
    messages = stream.live(members.topic)
    with (
        screen.meter("live", len(messages)) as meter,
        sent_live(producer, messages, sent, meter) as live,
    ):
        parking = park_and_release(members, parked, screen)
        wait_until(live.done, members, screen)
        live.result()
        ends = _ends(client, members.topic, sent)
        if parking.ok:  # else there is nothing to wait for: the bad record fails for ever
            wait_until(lambda: members.drained(ends) == ends.keys(), members, screen)
    handled = members.count() - before
    screen.fact(f"handled {handled:,}{', those that were parked too' if parking.ok else ''}")
    return parking


def _ends(client: Client, topic: str, sent: SendLog) -> dict[MessageQueue, int]:
    """For each queue the offset behind its last message.

    The broker acknowledges a message before its queue shows it, so what was acknowledged counts
    as much as what is shown; more may be shown if a retried send was stored twice.
    """
    queues = client.routes.get(topic).read_queues()
    ends = {queue: client.brokers.max_offset(queue) for queue in queues}
    for queue, offset in sent.stored.values():
        ends[queue] = max(ends[queue], offset + 1)
    return ends


def _conclude(report: DemoReport, screen: Screen, left_behind: str | None) -> None:
    screen.step(
        "Verdict",
        "An independent checker compared the messages that were sent with the messages that the"
        " handlers got, aircraft by aircraft.",
    )
    screen.table(report.rows())
    screen.verdict(report.exit_code == 0, report.verdict_text())
    if left_behind:
        screen.note(
            f"The topic {left_behind}, a group of that name, and its state and park topics stay on"
            " your broker."
        )
    screen.note("Next:  orderly broker start      a broker that stays, for your own trials")
    screen.note("       orderly topic create      a topic of your own; then: orderly send, tail")
    screen.note("       orderly backlog --help    how far behind a group is, also for cron")
    screen.note("       orderly parked --help     keys set aside: look, release, drop")
    screen.note("       orderly demo --all        the whole year: 656,584 events")


# --- a broker and a topic ------------------------------------------------------------------------


def start_broker(stack: ExitStack, screen: Screen) -> str:
    """Start one that ends with `stack`; returns the name server's address."""
    from orderly.testing.embedded import EmbeddedBroker  # noqa: PLC0415  --namesrv needs none
    from orderly.testing.jars import fetch_jars, listed_jars  # noqa: PLC0415
    from orderly.testing.java import find_java  # noqa: PLC0415

    size = sum(jar.size for jar in listed_jars())
    screen.step(
        "Start a broker",
        "A real RocketMQ name server and broker start on this machine, on free ports of 127.0.0.1,"
        f" and end with the demo. Their jars are downloaded once ({size / MIB:.0f} MiB).",
    )
    find_java()
    started = time.monotonic()
    with screen.meter("download", size, "bytes") as meter:
        fetch_jars(progress=lambda present, _: meter(present))
    with screen.busy("starting name server and broker"):
        broker = stack.enter_context(EmbeddedBroker())
    screen.fact(
        f"RocketMQ runs; its name server is {broker.namesrv} ({time.monotonic() - started:.1f} s)"
    )
    return broker.namesrv


def create_topic(client: Client, queues: int, screen: Screen) -> TopicRoute:
    """Create a fresh topic; returns its route."""
    topic = f"orderly-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    screen.step(
        "Create a topic",
        "A topic is split into queues. Order holds within a queue, so everything that must stay"
        " in order goes to the same one; different queues are handled side by side.",
    )
    client.admin.create_topic(topic, queues)
    route = _route(client, topic)
    screen.fact(f"topic {topic} with {len(route.write_queues())} queues")
    return route


def _route(client: Client, topic: str) -> TopicRoute:
    deadline = time.monotonic() + ROUTE_PATIENCE
    while True:
        try:
            return client.routes.refresh(topic)
        except OrderlyError:  # not yet there, or the name server is busy, as at its start
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


# --- the bad record ------------------------------------------------------------------------------


def park_and_release(members: DemoMembers, parked: ParkedMessages, screen: Screen) -> Parking:
    """Wait until the bad record's key is parked; deploy the fix; release the key.

    Live traffic is to go on meanwhile.

    Raises:
        OrderlyError: the command to release it was not answered.
    """
    bad = members.stream.bad
    parking = Parking(bad)
    late = time.monotonic() + PARK_PATIENCE
    wait_until(lambda: members.parked() > 0 or time.monotonic() > late, members, screen)
    if not members.parked():
        screen.event(f"{bad.key} was not parked within {PARK_PATIENCE:.0f} s")
        return parking
    parking.parked_at = time.monotonic()
    screen.event(f"{bad.key} is parked: its later events wait in order, all others go on")
    until = parking.parked_at + SHOWN_PARKED
    wait_until(lambda: time.monotonic() >= until, members, screen)
    if not (listed := _listed(parked, members, screen)):
        screen.event(f"`orderly parked list` did not show {bad.key} within {PARK_PATIENCE:.0f} s")
        return parking
    for report in listed:
        screen.event(f"orderly parked list: {report.key}, {report.messages} messages by now")
    members.deploy_the_fix()
    screen.event(
        "the fix is deployed: consumer C runs it, A is closed; the parked events stay parked"
    )
    parking.outcomes = parked.release(bad.key)
    parking.released_at = time.monotonic()
    how = "replayed in order" if parking.ok else "replayed, then it stopped"
    screen.event(f"orderly parked release: {parking.settled} messages of {bad.key} {how}")
    return parking


def _listed(parked: ParkedMessages, members: DemoMembers, screen: Screen) -> tuple[KeyReport, ...]:
    """What an operator sees, as soon as the brokers show it; empty if they do not in time.

    A name server may learn of the park topic from one of the brokers a while after the other.
    """
    late, listed = time.monotonic() + PARK_PATIENCE, parked.list()

    def seen() -> bool:
        nonlocal listed
        listed = listed if listed.keys else parked.list()
        return bool(listed.keys) or time.monotonic() > late

    wait_until(seen, members, screen)
    return listed.keys
