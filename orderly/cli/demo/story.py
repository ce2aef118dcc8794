"""The demo step by step: broker, topic, send, consume with trouble, verdict."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime

from orderly.cli.demo.consuming import ConsumeLog, Duo
from orderly.cli.demo.flights import FlightEvent, RowCounts, load_events
from orderly.cli.demo.report import Report, judge_run
from orderly.cli.demo.screen import Screen
from orderly.cli.demo.sending import SendLog, send_events
from orderly.cli.demo.trouble import FailingMessage, pick_failing
from orderly.cli.demo.watching import watch
from orderly.client import Client
from orderly.config import MIB, ProducerConfig
from orderly.errors import SendFailed, TopicNotFound
from orderly.model import MessageQueue, TopicRoute
from orderly.monitoring.backlog import totals
from orderly.monitoring.collect import collect
from orderly.producer import OrderlyProducer
from orderly.selectors.layout import layout_of

ROUTE_PATIENCE = 10.0  # seconds until the name server must know a topic just created


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for. `namesrv` empty: start a broker; `limit` None: all events."""

    namesrv: str
    limit: int | None
    queues: int
    seed: int


def tell(plan: Plan, screen: Screen) -> Report:
    """Run the whole demo.

    Raises:
        OrderlyError: it could not be run, so nothing was measured.
    """
    started = time.monotonic()
    screen.title("orderly demo: ordered messages on a real RocketMQ broker")
    with ExitStack() as stack:
        # Reading the flights takes seconds, in which the broker can start.
        reader = stack.enter_context(ThreadPoolExecutor(1, "orderly-demo-flights"))
        loading = reader.submit(load_events, plan.limit)
        namesrv = plan.namesrv or _start_broker(stack, screen)
        if plan.namesrv:
            screen.step("Broker", "You named a name server, so no broker is started.")
            screen.fact(f"using {namesrv}")
        client = stack.enter_context(closing(Client(namesrv=namesrv)))
        topic, route = _create_topic(client, plan.queues, screen)
        events, sent = _send(namesrv, route, loading, screen)
        failing = _failing(events, plan.seed)
        consumed = _consume(client, topic, sent, failing, screen)
        backlog = totals(collect(client, topic, topic))
        seconds = time.monotonic() - started
        report = judge_run(events, sent, consumed, failing, backlog=backlog, seconds=seconds)
    _conclude(report, screen, topic if plan.namesrv else None)
    return report


def _start_broker(stack: ExitStack, screen: Screen) -> str:
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


def _create_topic(client: Client, queues: int, screen: Screen) -> tuple[str, TopicRoute]:
    topic = f"orderly-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    screen.step(
        "Create a topic",
        "A topic is split into queues. Order holds within a queue, so everything that must stay"
        " in order goes to the same one; different queues are handled side by side.",
    )
    client.admin.create_topic(topic, queues)
    route = _route(client, topic)
    screen.fact(f"topic {topic} with {len(route.write_queues())} queues")
    return topic, route


def _route(client: Client, topic: str) -> TopicRoute:
    deadline = time.monotonic() + ROUTE_PATIENCE
    while True:
        try:
            return client.routes.refresh(topic)
        except TopicNotFound:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _send(
    namesrv: str,
    route: TopicRoute,
    loading: Future[tuple[list[FlightEvent], RowCounts]],
    screen: Screen,
) -> tuple[list[FlightEvent], SendLog]:
    screen.step(
        "Send",
        "Every departure and every arrival of 2013's flights from New York is one message, in"
        " order of time. Its sharding key is the aircraft's tail number: the key's hash picks"
        " the queue, so all events of one aircraft are in one queue, in the order they were sent.",
    )
    with screen.busy("reading the flights"):
        events, rows = loading.result()
    screen.fact(rows.text())
    config = ProducerConfig(layout=str(layout_of(route)))
    with (
        OrderlyProducer(namesrv=namesrv, config=config) as producer,
        screen.meter("sending", len(events)) as meter,
    ):
        sent = send_events(producer, route.topic, events, meter)
    if not sent.stored:
        raise SendFailed(f"not one message was stored: {next(iter(sent.failed.values()), '')}")
    aircraft = len({event.tail for event in events})
    screen.fact(
        f"sent {len(sent.stored):,} events of {aircraft:,} aircraft in {sent.seconds:.1f} s"
        f" ({sent.rate:,.0f}/s)"
    )
    return events, sent


def _failing(events: Sequence[FlightEvent], seed: int) -> FailingMessage:
    number = pick_failing(events, seed)
    event = events[number]
    return FailingMessage(number, f"{event.tail}'s {event.kind} of {event.time}")


def _consume(
    client: Client,
    topic: str,
    sent: SendLog,
    failing: FailingMessage,
    screen: Screen,
) -> ConsumeLog:
    screen.step(
        "Consume, with trouble",
        "Two consumers share a group: the broker's queue lock gives each queue to one of them."
        " One message fails three times: its queue waits for it, the others go on. Half-way"
        " consumer B closes, and A takes over its queues.",
    )
    ends = _ends(client, topic, sent)
    log = watch(Duo(client.config.namesrv, topic, ends, failing), screen)
    screen.fact(f"handled {len(log.deliveries):,} in {log.seconds:.1f} s ({log.rate:,.0f}/s)")
    return log


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


def _conclude(report: Report, screen: Screen, left_behind: str | None) -> None:
    screen.step(
        "Verdict",
        "An oracle that knows nothing of the library compared what was sent with what the"
        " handlers were given, aircraft by aircraft.",
    )
    screen.table(report.rows())
    screen.verdict(report.exit_code == 0, report.verdict_text())
    if left_behind:
        screen.note(f"The topic {left_behind} and a group of that name stay on your broker.")
    screen.note("Next:  orderly broker start      a broker that stays, for your own trials")
    screen.note("       orderly topic create      a topic of your own; then: orderly send, tail")
    screen.note("       orderly backlog --help    how far behind a group is, also for cron")
    screen.note("       orderly demo --all        the whole year: 656,584 events")
